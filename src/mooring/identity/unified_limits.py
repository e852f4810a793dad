"""Unified limits: what projects may have of other services' resources, kept for those services.

An administrator registers how much of a resource each project may have, and gives one project, or
one domain, a limit of its own. Identity enforces none of them, and knows no names of resources: the
service that a limit is for asks, and counts. The model is flat: no limit bounds another one.
Source: facts/identity_image_placement.md 4.2 and 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import Select, or_, select
from sqlalchemy.orm import contains_eager

from mooring.errors import Conflict, Forbidden, Invalid
from mooring.identity import bodies, rows
from mooring.identity.tables import (
    DomainRow,
    LimitRow,
    ProjectRow,
    RegionRow,
    RegisteredLimitRow,
    ServiceRow,
)
from mooring.row_limits import UNIFIED_LIMIT, UNIFIED_LIMITS_AT_ONCE

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.who import Who

ResourceName = Annotated[str, Meta(min_length=1, max_length=255)]
Amount = Annotated[int, Meta(ge=-1, le=UNIFIED_LIMIT)]
Description = Annotated[str, Meta(max_length=65535)]
Row = TypeVar("Row", RegisteredLimitRow, LimitRow)

_REFERENCES: dict[str, type[ServiceRow | RegionRow | ProjectRow | DomainRow]] = {
    "service_id": ServiceRow,
    "region_id": RegionRow,
    "project_id": ProjectRow,
    "domain_id": DomainRow,
}
_NAMING = ("service_id", "region_id", "resource_name")
"""What limits refer to a registered one by."""


class NewRegisteredLimit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each project is to have at most; -1: any amount. Without a region it holds in all."""

    service_id: str
    resource_name: ResourceName
    default_limit: Amount
    region_id: str | None = None
    description: Description | None = None


class RegisteredLimitChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change."""

    service_id: str | UnsetType = UNSET
    region_id: str | UnsetType | None = UNSET
    resource_name: ResourceName | UnsetType = UNSET
    default_limit: Amount | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET


class NewLimit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one project, or one domain, is to have at most; -1: any amount."""

    service_id: str
    resource_name: ResourceName
    resource_limit: Amount
    region_id: str | None = None
    project_id: str | None = None
    domain_id: str | None = None
    description: Description | None = None


class LimitChange(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to change. Whose limit of what it is stays."""

    resource_limit: Amount | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET


_SOME = Meta(min_length=1, max_length=UNIFIED_LIMITS_AT_ONCE)
NewRegisteredLimits = Annotated[list[NewRegisteredLimit], _SOME]
NewLimits = Annotated[list[NewLimit], _SOME]


def find_registered(tx: Session, limit_id: str) -> RegisteredLimitRow:
    """Return a registered limit. Raises NotFound."""
    return rows.find(tx, RegisteredLimitRow, "registered limit", limit_id)


def register(tx: Session, new: Sequence[NewRegisteredLimit]) -> list[RegisteredLimitRow]:
    """Register all of these or none.

    Raises Invalid for a service or a region that does not exist, Conflict for a resource that has
    a registered limit.
    """
    return [_register(tx, one) for one in new]


def _register(tx: Session, new: NewRegisteredLimit) -> RegisteredLimitRow:
    values = bodies.given(new)
    _check_references(tx, values)
    _refuse_registered(tx, values)
    return rows.keep(tx, RegisteredLimitRow(id=bodies.new_id(), **values))


def change_registered(
    tx: Session, limit_id: str, changes: RegisteredLimitChange
) -> RegisteredLimitRow:
    """Change a registered limit.

    Raises NotFound; Forbidden for another service, region or name while limits refer to it; else
    what `register` raises.
    """
    row = find_registered(tx, limit_id)
    given = bodies.given(changes)
    if any(given.get(name, getattr(row, name)) != getattr(row, name) for name in _NAMING):
        _refuse_referred(tx, row)
        _check_references(tx, given)
        _refuse_registered(tx, {name: given.get(name, getattr(row, name)) for name in _NAMING})
    return _set(tx, row, given)


def remove_registered(tx: Session, limit_id: str) -> None:
    """Delete a registered limit. Raises NotFound, Forbidden while limits refer to it."""
    row = find_registered(tx, limit_id)
    _refuse_referred(tx, row)
    rows.remove(tx, row)


def find(tx: Session, limit_id: str) -> LimitRow:
    """Return a limit. Raises NotFound."""
    return rows.find(tx, LimitRow, "limit", limit_id)


def create(tx: Session, new: Sequence[NewLimit]) -> list[LimitRow]:
    """Make all of these limits or none.

    Raises Invalid unless each names either a project or a domain, and for what does not exist;
    Forbidden for a resource without a registered limit; Conflict for one that has a limit there.
    """
    return [_create(tx, one) for one in new]


def _create(tx: Session, new: NewLimit) -> LimitRow:
    if (new.project_id is None) == (new.domain_id is None):
        raise Invalid("A limit is for a project or for a domain. Name one of both.")
    _check_references(tx, bodies.given(new))
    # Loaded as an object, so that on PostgreSQL nobody renames it until this is written.
    registered = tx.scalar(_registered(bodies.given(new)))
    if registered is None:
        raise Forbidden(
            f"There is no registered limit of {new.resource_name} for service {new.service_id} "
            f"{_where(new.region_id)}. Nothing was made; register one first."
        )
    owner = {"project_id": new.project_id, "domain_id": new.domain_id}
    taken = select(LimitRow.id).where(LimitRow.registered_limit_id == registered.id)
    if tx.scalar(taken.filter_by(**owner)) is not None:
        raise Conflict(
            f"{new.project_id or new.domain_id} has a limit of {new.resource_name} already. "
            "Nothing was made; change that one."
        )
    return rows.keep(
        tx,
        LimitRow(
            id=bodies.new_id(),
            registered_limit_id=registered.id,
            resource_limit=new.resource_limit,
            description=new.description,
            **owner,
        ),
    )


def change(tx: Session, limit_id: str, changes: LimitChange) -> LimitRow:
    """Change a limit. Raises NotFound."""
    return _set(tx, find(tx, limit_id), bodies.given(changes))


def remove(tx: Session, limit_id: str) -> None:
    """Delete a limit: from then on what is registered holds there. Raises NotFound."""
    rows.remove(tx, find(tx, limit_id))


def seen_by(who: Who, *, sees_all: bool) -> Select[LimitRow]:
    """Select the limits that a caller may see, with what each refers to joined.

    Those of a token's project; of its domain, with the projects in it.
    """
    query = select(LimitRow).join(LimitRow.registered).options(contains_eager(LimitRow.registered))
    if sees_all:
        return query
    if not who.domain_id:
        return query.where(LimitRow.project_id == who.project_id)
    inside = select(ProjectRow.id).where(ProjectRow.domain_id == who.domain_id)
    return query.where(or_(LimitRow.domain_id == who.domain_id, LimitRow.project_id.in_(inside)))


def target(tx: Session, row: LimitRow) -> dict[str, Any]:
    """Return what the rule about a limit is asked for: its project, and the domain it is in."""
    project = rows.find(tx, ProjectRow, "project", row.project_id) if row.project_id else None
    domain_id = project.domain_id if project else row.domain_id
    return {"target.limit.project_id": row.project_id, "target.limit.domain_id": domain_id}


def _registered(values: Mapping[str, Any]) -> Select[RegisteredLimitRow]:
    """Select what is registered for a service, a region or none, and a name."""
    return select(RegisteredLimitRow).filter_by(**{name: values.get(name) for name in _NAMING})


def _refuse_registered(tx: Session, values: Mapping[str, Any]) -> None:
    if tx.scalar(_registered(values)) is not None:
        raise Conflict(
            f"Service {values['service_id']} has a registered limit of {values['resource_name']} "
            f"{_where(values['region_id'])} already. Nothing was changed; change that one."
        )


def _refuse_referred(tx: Session, row: RegisteredLimitRow) -> None:
    limit = select(LimitRow.id).where(LimitRow.registered_limit_id == row.id).limit(1)
    if tx.scalar(limit) is not None:
        raise Forbidden(
            f"Limits of projects or domains refer to the registered limit {row.id}. Nothing was "
            "changed; delete them first."
        )


def _check_references(tx: Session, values: Mapping[str, Any]) -> None:
    for name, table in _REFERENCES.items():
        row_id = values.get(name)
        if row_id is None:
            continue
        if tx.scalar(select(table.id).where(table.id == row_id)) is None:
            kind = name.removesuffix("_id")
            raise Invalid(f"Invalid input for {name}: there is no {kind} {row_id}.")


def _where(region_id: str | None) -> str:
    return "in all regions" if region_id is None else f"in region {region_id}"


def _set(tx: Session, row: Row, values: Mapping[str, Any]) -> Row:
    for name, value in values.items():
        setattr(row, name, value)
    tx.flush()
    return row
