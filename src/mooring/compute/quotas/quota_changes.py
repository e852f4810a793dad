"""Setting limits: of one project, and of all that have none of their own."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import delete
from sqlalchemy.orm import Session

from mooring.compute.quotas import quota
from mooring.compute.tables import QuotaDefault, QuotaLimit
from mooring.errors import Invalid


def set_limits(
    tx: Session, project_id: str, wanted: Mapping[str, int], *, force: bool
) -> dict[str, int]:
    """Set a project's own limits; return all that hold for it now.

    Raises Invalid for one below what is used, unless forced.
    """
    quota.hold(tx, project_id)
    if not force:
        _check_used(tx, project_id, wanted)
    mine = delete(QuotaLimit).where(QuotaLimit.project_id == project_id)
    tx.execute(mine.where(QuotaLimit.resource.in_(list(wanted))))
    for resource, maximum in wanted.items():
        tx.add(QuotaLimit(project_id=project_id, resource=resource, maximum=maximum))
    tx.flush()
    return quota.find_limits(tx, project_id)


def forget_limits(tx: Session, project_id: str) -> None:
    """Let the defaults hold for a project again."""
    tx.execute(delete(QuotaLimit).where(QuotaLimit.project_id == project_id))


def set_defaults(tx: Session, wanted: Mapping[str, int]) -> dict[str, int]:
    """Set what holds for projects without limits of their own; return all of it."""
    for resource, maximum in wanted.items():
        tx.merge(QuotaDefault(resource=resource, maximum=maximum))
    tx.flush()
    return quota.find_defaults(tx)


def _check_used(tx: Session, project_id: str, wanted: Mapping[str, int]) -> None:
    used = quota.sum_usage(tx, project_id)
    for resource, in_use in (
        ("instances", used.instances),
        ("cores", used.cores),
        ("ram", used.ram),
    ):
        maximum = wanted.get(resource, quota.UNLIMITED)
        if quota.UNLIMITED < maximum < in_use:
            raise Invalid(
                f"Quota limit {maximum} for {resource} must be greater than or equal to already "
                f"used and reserved {in_use}. Nothing was changed; use force to set it anyway."
            )
