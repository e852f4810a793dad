"""Flavors: the sizes that servers come in, and who may use which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import uuid4

from msgspec import Struct
from sqlalchemy import ColumnElement, bindparam, or_, select, true, update
from sqlalchemy import delete as delete_from
from sqlalchemy.orm import Session

from mooring import limits
from mooring.compute.tables import Flavor, FlavorAccess
from mooring.compute.wire import keyset
from mooring.compute.wire.keyset import SortKey
from mooring.errors import Conflict, Invalid, NotFound
from mooring.store.loaded import ById
from mooring.store.prepared import Prepared
from mooring.who import Who

SORT_COLUMNS = {
    "created_at": Flavor.created_at,
    "description": Flavor.description,
    "disabled": Flavor.disabled,
    "ephemeral_gb": Flavor.ephemeral_gib,
    "flavorid": Flavor.id,
    "id": Flavor.id,
    "is_public": Flavor.is_public,
    "memory_mb": Flavor.memory_mib,
    "name": Flavor.name,
    "root_gb": Flavor.disk_gib,
    "rxtx_factor": Flavor.rxtx_factor,
    "swap": Flavor.swap_mib,
    "vcpus": Flavor.vcpus,
}


class NewFlavor(Struct, frozen=True, kw_only=True):
    """A flavor to be made: `memory_mib` and `swap_mib` in MiB, the disks in GiB."""

    name: str
    vcpus: int
    memory_mib: int
    disk_gib: int
    id: str | None = None
    """None makes an id."""
    ephemeral_gib: int = 0
    swap_mib: int = 0
    rxtx_factor: float = 1.0
    is_public: bool = True
    description: str | None = None


class FlavorQuery(Struct, frozen=True, kw_only=True):
    """Which flavors to list, and in what order. `is_public` None shows both kinds."""

    is_public: bool | None = True
    min_memory_mib: int = 0
    min_disk_gib: int = 0
    name: str = ""
    """A part of the name."""
    sort_key: str = "flavorid"
    descending: bool = False
    marker: str = ""
    limit: int = limits.WEB_PAGE_ROWS


DEFAULTS = (
    NewFlavor(id="42", name="m1.nano", vcpus=1, memory_mib=128, disk_gib=1),
    NewFlavor(id="84", name="m1.micro", vcpus=1, memory_mib=256, disk_gib=1),
    NewFlavor(id="1", name="m1.tiny", vcpus=1, memory_mib=512, disk_gib=1),
    NewFlavor(id="2", name="m1.small", vcpus=1, memory_mib=2048, disk_gib=10),
    NewFlavor(id="3", name="m1.medium", vcpus=2, memory_mib=4096, disk_gib=20),
)
"""What a new cloud starts with; the first three fit a laptop."""


def bootstrap(tx: Session, now: datetime) -> None:
    """Make the default flavors where there is none at all, so that a deleted one stays deleted."""
    if tx.execute(select(Flavor.id).limit(1)).first() is None:
        for flavor in DEFAULTS:
            create(tx, flavor, now)


def visible(tx: Session, who: Who, flavor_id: str) -> Flavor:
    """Return the flavor that this caller may use. Raises NotFound."""
    tx.flush()
    row = _by_id.find(tx, flavor_id)
    may_use = row is not None and (
        row.is_public
        or who.is_admin
        or _access.first(tx, of_flavor=flavor_id, of_project=who.project_id) is not None
    )
    if row is None or not may_use:
        raise NotFound(f"Flavor {flavor_id} could not be found.")
    return row


def page(tx: Session, who: Who, query: FlavorQuery) -> Sequence[Flavor]:
    """Return one page. Raises Invalid for a bad sort key or marker."""
    column = SORT_COLUMNS.get(query.sort_key)
    if column is None:
        raise Invalid(f"Invalid sort key: {query.sort_key}.")
    keys = [SortKey(column, query.descending)]
    if column is not Flavor.id:
        keys.append(SortKey(Flavor.id, query.descending))
    wanted = select(Flavor).where(_allowed(who), *_filters(who, query))
    if query.marker:
        marker = _marker(tx, who, query, keys)
        wanted = wanted.where(keyset.after(keys, marker))
    wanted = wanted.order_by(*keyset.order(keys)).limit(query.limit)
    return tx.execute(wanted).scalars().all()


def create(tx: Session, flavor: NewFlavor, now: datetime) -> Flavor:
    """Make a flavor. Raises Conflict when its id or name is taken."""
    flavor_id = flavor.id or str(uuid4())
    taken = select(Flavor.id).where(or_(Flavor.id == flavor_id, Flavor.name == flavor.name))
    found = tx.execute(taken).scalars().first()
    if found == flavor_id:
        raise Conflict(f"Flavor with ID {flavor_id} already exists.")
    if found is not None:
        raise Conflict(f"Flavor with name {flavor.name} already exists.")
    row = Flavor(
        id=flavor_id,
        name=flavor.name,
        vcpus=flavor.vcpus,
        memory_mib=flavor.memory_mib,
        disk_gib=flavor.disk_gib,
        ephemeral_gib=flavor.ephemeral_gib,
        swap_mib=flavor.swap_mib,
        rxtx_factor=flavor.rxtx_factor,
        is_public=flavor.is_public,
        disabled=False,
        description=flavor.description,
        extra_specs={},
        created_at=now,
    )
    tx.add(row)
    tx.flush()
    return row


def describe(tx: Session, who: Who, flavor_id: str, description: str | None) -> Flavor:
    """Change the description, the only thing that may change. Raises NotFound."""
    row = visible(tx, who, flavor_id)
    row.description = description
    tx.flush()
    return row


def delete(tx: Session, who: Who, flavor_id: str) -> None:
    """Delete a flavor; servers keep the size they have. Raises NotFound."""
    visible(tx, who, flavor_id)
    tx.execute(delete_from(FlavorAccess).where(FlavorAccess.flavor_id == flavor_id))
    tx.execute(delete_from(Flavor).where(Flavor.id == flavor_id))


def set_specs(tx: Session, flavor_id: str, specs: Mapping[str, str]) -> None:
    """Replace the extra specs of a flavor that was just read in this transaction."""
    tx.execute(update(Flavor).where(Flavor.id == flavor_id).values(extra_specs=dict(specs)))


def projects(tx: Session, who: Who, flavor_id: str) -> Sequence[str]:
    """Return who may use a private flavor. Raises NotFound, for a public one too."""
    flavor = visible(tx, who, flavor_id)
    if flavor.is_public:
        raise NotFound("Access list not available for public flavors.")
    return _projects(tx, flavor_id)


def allow(
    tx: Session, who: Who, flavor_id: str, project_id: str, *, private_only: bool = True
) -> Sequence[str]:
    """Let a project use a flavor; return who may. Raises NotFound, Conflict if it may already."""
    flavor = visible(tx, who, flavor_id)
    if private_only and flavor.is_public:
        raise Conflict("Can not add access to a public flavor.")
    if project_id in _projects(tx, flavor_id):
        raise Conflict(
            f"Flavor access already exists for flavor {flavor_id} and project {project_id}"
            " combination."
        )
    tx.add(FlavorAccess(flavor_id=flavor_id, project_id=project_id))
    tx.flush()
    return _projects(tx, flavor_id)


def refuse(tx: Session, who: Who, flavor_id: str, project_id: str) -> Sequence[str]:
    """Take a flavor from a project; returns who still may use it. Raises NotFound."""
    visible(tx, who, flavor_id)
    if project_id not in _projects(tx, flavor_id):
        raise NotFound(f"Flavor access not found for {flavor_id} / {project_id} combination.")
    tx.execute(
        delete_from(FlavorAccess).where(
            FlavorAccess.flavor_id == flavor_id, FlavorAccess.project_id == project_id
        )
    )
    return _projects(tx, flavor_id)


def _projects(tx: Session, flavor_id: str) -> Sequence[str]:
    query = select(FlavorAccess.project_id).where(FlavorAccess.flavor_id == flavor_id)
    return tx.execute(query.order_by(FlavorAccess.project_id)).scalars().all()


def _allowed(who: Who) -> ColumnElement[bool]:
    if who.is_admin:
        return true()
    mine = select(FlavorAccess.flavor_id).where(FlavorAccess.project_id == who.project_id)
    return or_(Flavor.is_public.is_(True), Flavor.id.in_(mine))


def _filters(who: Who, query: FlavorQuery) -> list[ColumnElement[bool]]:
    filters: list[ColumnElement[bool]] = []
    if query.min_memory_mib:
        filters.append(Flavor.memory_mib >= query.min_memory_mib)
    if query.min_disk_gib:
        filters.append(Flavor.disk_gib >= query.min_disk_gib)
    # Others always see the public ones and their own, whatever they ask for.
    if who.is_admin and query.is_public is not None:
        filters.append(Flavor.is_public.is_(query.is_public))
    if query.name:
        filters.append(Flavor.name.contains(query.name, autoescape=True))
    return filters


def _marker(tx: Session, who: Who, query: FlavorQuery, keys: Sequence[SortKey]) -> Sequence[Any]:
    columns = select(*(key.column for key in keys)).where(Flavor.id == query.marker)
    found = tx.execute(columns.where(_allowed(who))).first()
    if found is None:
        raise Invalid(f"marker [{query.marker}] not found")
    return found


_by_id = ById(Flavor)
_access = Prepared(
    select(FlavorAccess.flavor_id).where(
        FlavorAccess.flavor_id == bindparam("of_flavor"),
        FlavorAccess.project_id == bindparam("of_project"),
    ),
    str,
)
