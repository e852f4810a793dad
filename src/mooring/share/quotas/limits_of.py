"""The limits of projects, of users within them and of share types: read and set.

Source: facts/shared_file_systems.md 13.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from mooring.errors import Invalid
from mooring.share.quotas import holding, usage
from mooring.share.quotas.usage import Scope
from mooring.share.tables import QuotaClassRow, QuotaRow

UNLIMITED = -1
DEFAULT_CLASS = "default"
OF_TYPES = (
    *("shares", "gigabytes", "snapshots", "snapshot_gigabytes"),
    *("share_replicas", "replica_gigabytes", "per_share_gigabytes"),
)
"""What a share type may have limits of."""
DEFAULTS: Mapping[str, int] = {
    "shares": 50,
    "gigabytes": 1000,
    "snapshots": 50,
    "snapshot_gigabytes": 1000,
    "share_networks": 10,
    "share_groups": 50,
    "share_group_snapshots": 50,
    "share_replicas": 100,
    "replica_gigabytes": 1000,
    "per_share_gigabytes": UNLIMITED,
    "backups": 10,
    "backup_gigabytes": 1000,
}
"""The limits of a cloud whose operator has set none."""


def find_defaults(tx: Session, class_name: str = DEFAULT_CLASS) -> dict[str, int]:
    """Return the limits of a quota class, by resource."""
    query = select(QuotaClassRow.resource, QuotaClassRow.hard_limit)
    rows = tx.execute(query.where(QuotaClassRow.class_name == class_name))
    return dict(DEFAULTS) | {row.resource: row.hard_limit for row in rows}


def find(tx: Session, scope: Scope) -> dict[str, int]:
    """Return the limits that hold in a scope, by resource; -1 is no limit.

    A user or a type without its own has those of the project.
    """
    found = find_defaults(tx) | _own(tx, Scope(scope.project_id))
    if scope.user_id or scope.share_type_id:
        found |= _own(tx, scope)
    return {name: found[name] for name in OF_TYPES} if scope.share_type_id else found


def _own(tx: Session, scope: Scope) -> dict[str, int]:
    rows = tx.execute(select(QuotaRow.resource, QuotaRow.hard_limit).where(*_of(scope)))
    return {row.resource: row.hard_limit for row in rows}


def _of(scope: Scope) -> list[Any]:
    return [
        QuotaRow.project_id == scope.project_id,
        QuotaRow.user_id == scope.user_id,
        QuotaRow.share_type_id == scope.share_type_id,
    ]


def set_own(tx: Session, scope: Scope, wanted: Mapping[str, int], *, force: bool) -> dict[str, int]:
    """Set the limits of a scope, and return all of them.

    Raises Invalid below what is used already unless `force`, and for more than the project has.
    """
    holding.hold(tx, scope.project_id)
    _check_known(wanted, OF_TYPES if scope.share_type_id else tuple(DEFAULTS))
    taken, whole = usage.find_taken(tx, scope), find(tx, Scope(scope.project_id))
    for resource, limit in wanted.items():
        if not force and limit != UNLIMITED and limit < taken[resource]:
            raise Invalid(
                f"Invalid input received: Quota limit {limit} for {resource} is less than the "
                f"{taken[resource]} in use. Nothing was changed; set at least what is in use, or "
                "force it.",
            )
        if scope != Scope(scope.project_id) and _exceeds(limit, whole[resource]):
            raise Invalid(
                f"Invalid input received: Quota limit {limit} for {resource} must not be more than "
                f"the project's, which is {whole[resource]}. Nothing was changed.",
            )
    for resource, limit in wanted.items():
        tx.merge(QuotaRow(**_names(scope), resource=resource, hard_limit=limit))
    tx.flush()
    return find(tx, scope)


def _exceeds(limit: int, most: int) -> bool:
    return most != UNLIMITED and (limit == UNLIMITED or limit > most)


def _names(scope: Scope) -> dict[str, str]:
    return {name: getattr(scope, name) for name in scope.__struct_fields__}


def set_class(tx: Session, class_name: str, wanted: Mapping[str, int]) -> dict[str, int]:
    """Set the limits of a quota class, and return all of them."""
    _check_known(wanted, tuple(DEFAULTS))
    for resource, limit in wanted.items():
        tx.merge(QuotaClassRow(class_name=class_name, resource=resource, hard_limit=limit))
    tx.flush()
    return find_defaults(tx, class_name)


def forget(tx: Session, scope: Scope) -> None:
    """Let what stands above hold for a scope again: with a whole project also for all within."""
    gone = delete(QuotaRow)
    if scope == Scope(scope.project_id):
        tx.execute(gone.where(QuotaRow.project_id == scope.project_id))
    else:
        tx.execute(gone.where(*_of(scope)))


def _check_known(wanted: Mapping[str, int], known: tuple[str, ...]) -> None:
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise Invalid(
            f"Invalid input received: there is no such quota here: {', '.join(unknown)}. Nothing "
            "was changed.",
        )
