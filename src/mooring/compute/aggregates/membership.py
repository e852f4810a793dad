"""What aggregates ask of the servers on their hosts, and what a host leaves when it goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import delete, select

from mooring.compute.tables import Aggregate, AggregateHost
from mooring.store.prepared import Prepared

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

SPEC = "aggregate_instance_extra_specs:"
"""A flavor's extra spec of this scope must be in the metadata of an aggregate of the host."""
_TENANT = "filter_tenant_id"
_OR = "<or>"


class Membership(Struct, frozen=True):
    """The metadata of one aggregate that a host is in."""

    host: str
    details: dict[str, str]


_all = Prepared(
    select(AggregateHost.host, Aggregate.details).join(
        Aggregate, Aggregate.id == AggregateHost.aggregate_id
    ),
    Membership,
)


def by_host(tx: Session) -> dict[str, list[dict[str, str]]]:
    """Return the metadata of the aggregates that each host is in."""
    found: dict[str, list[dict[str, str]]] = {}
    for membership in _all.all(tx):
        found.setdefault(membership.host, []).append(membership.details)
    return found


def leave_all(tx: Session, host: str) -> None:
    """Take a host that is removed out of every aggregate."""
    tx.execute(delete(AggregateHost).where(AggregateHost.host == host))


def refusal(
    aggregates: Sequence[Mapping[str, str]], extra_specs: Mapping[str, str], project_id: str
) -> str:
    """Return why a host in these aggregates will not do, as `filters.refusal` does."""
    kept_for = [
        {each.strip() for each in value.split(",")}
        for details in aggregates
        for key, value in details.items()
        if key.startswith(_TENANT)
    ]
    if kept_for and not any(project_id in projects for projects in kept_for):
        return "kept for other projects"
    for key, wanted in extra_specs.items():
        name = key.removeprefix(SPEC)
        if name == key:
            continue
        if not any(_meets(details.get(name), wanted) for details in aggregates):
            return f"in no aggregate with {name}={wanted}"
    return ""


def _meets(value: str | None, wanted: str) -> bool:
    """Tell whether metadata, which may list several values, has one of those that are wanted."""
    if value is None:
        return False
    alternatives = {each.strip() for each in wanted.split(_OR) if each.strip()}
    return bool(alternatives & {each.strip() for each in value.split(",")})
