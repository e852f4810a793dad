"""Aggregates of hosts: made, changed, and what zone that puts their hosts into.

Source: facts/compute.md 10.2, 11.5, 12.2. A host's zone is that of its aggregate with one, else the
default. It changes only while the host has no servers: theirs would change under them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from msgspec import UNSET, Struct, UnsetType
from sqlalchemy import bindparam, delete, insert, select

from mooring.compute.hosts import hosts
from mooring.compute.moves import migrations
from mooring.compute.tables import Aggregate, AggregateHost, Server
from mooring.errors import Conflict, Invalid, NotFound
from mooring.store.loaded import Adding, Loaded

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.tables import Host

ZONE = "availability_zone"
"""The key of the metadata that says the zone once more."""

_by_id = Loaded(Aggregate, lambda columns: columns.id == bindparam("of_id"))
_by_name = Loaded(Aggregate, lambda columns: columns.name == bindparam("of_name"))
_all = Loaded(Aggregate, order_by=lambda columns: [columns.id])
_add = Adding(Aggregate)


class Changes(Struct, frozen=True, kw_only=True):
    """What is new about an aggregate; what is UNSET stays. A key of the metadata goes with None."""

    name: str | UnsetType = UNSET
    zone: str | UnsetType | None = UNSET
    metadata: Mapping[str, str | None] = {}


def find(tx: Session, aggregate_id: int) -> Aggregate:
    """Return an aggregate. Raises NotFound."""
    row = _by_id.first(tx, of_id=aggregate_id)
    if row is None:
        raise NotFound(f"Aggregate {aggregate_id} could not be found.")
    return row


def find_all(tx: Session) -> list[Aggregate]:
    """Return every aggregate, in the order of their making."""
    return _all.all(tx)


def hosts_of(tx: Session, rows: Sequence[Aggregate]) -> dict[int, list[str]]:
    """Return the names of each aggregate's hosts, by the aggregate's id."""
    found: dict[int, list[str]] = {}
    query = select(AggregateHost.aggregate_id, AggregateHost.host).where(
        AggregateHost.aggregate_id.in_([row.id for row in rows])
    )
    for aggregate_id, host in tx.execute(query.order_by(AggregateHost.host)):
        found.setdefault(aggregate_id, []).append(host)
    return found


def create(tx: Session, name: str, zone: str | None, now: datetime) -> Aggregate:
    """Make an aggregate without hosts. Raises Conflict when there is one of that name."""
    _check_name(tx, name)
    made = Aggregate(uuid=str(uuid4()), name=name, zone=zone, created_at=now)
    return _add(tx, made)


def change(
    tx: Session, aggregate_id: int, changes: Changes, default_zone: str, now: datetime
) -> Aggregate:
    """Change an aggregate, and with its zone those of its hosts.

    Raises NotFound, Conflict for a name that is taken, Invalid for a zone that its hosts cannot
    be in.
    """
    row = find(tx, aggregate_id)
    if changes.name is not UNSET and changes.name != row.name:
        _check_name(tx, changes.name)
        row.name = changes.name
    kept = {**row.details, **changes.metadata}
    row.details = {key: value for key, value in kept.items() if value is not None}
    row.updated_at = now
    if changes.zone is not UNSET and changes.zone != row.zone:
        row.zone = changes.zone
        tx.flush()
        try:
            _settle_zones(tx, hosts_of(tx, [row]).get(row.id, []), default_zone)
        except Conflict as error:
            raise Invalid(error.public) from error
    tx.flush()
    return row


def remove(tx: Session, aggregate_id: int) -> None:
    """Delete an aggregate. Raises NotFound, Invalid while it has hosts."""
    row = find(tx, aggregate_id)
    if held := hosts_of(tx, [row]).get(row.id):
        raise Invalid(
            f"Cannot remove aggregate {row.name}: it is not empty. Nothing was changed; remove "
            f"its hosts first ({', '.join(held[:10])})."
        )
    tx.execute(delete(Aggregate).where(Aggregate.id == row.id))


def add_host(
    tx: Session, aggregate_id: int, name: str, default_zone: str, now: datetime
) -> Aggregate:
    """Put a host into an aggregate.

    Raises NotFound, Conflict when it is there already, is in another zone, or has servers while its
    zone would change.
    """
    row = find(tx, aggregate_id)
    _find_host(tx, name)
    if name in hosts_of(tx, [row]).get(row.id, []):
        raise Conflict(f"Aggregate {row.name} already has host {name}. Nothing was changed.")
    tx.execute(insert(AggregateHost).values(aggregate_id=row.id, host=name))
    row.updated_at = now
    tx.flush()
    _settle_zones(tx, [name], default_zone)
    return row


def remove_host(
    tx: Session, aggregate_id: int, name: str, default_zone: str, now: datetime
) -> Aggregate:
    """Take a host out of an aggregate. Raises NotFound, Conflict as `add_host` does."""
    row = find(tx, aggregate_id)
    _find_host(tx, name)
    if name not in hosts_of(tx, [row]).get(row.id, []):
        raise NotFound(f"Host {name} could not be found in aggregate {row.name}.")
    gone = delete(AggregateHost).where(AggregateHost.host == name)
    tx.execute(gone.where(AggregateHost.aggregate_id == row.id))
    row.updated_at = now
    tx.flush()
    _settle_zones(tx, [name], default_zone)
    return row


def _check_name(tx: Session, name: str) -> None:
    if _by_name.first(tx, of_name=name) is not None:
        raise Conflict(f"Aggregate {name} already exists. Nothing was changed.")


def _find_host(tx: Session, name: str) -> Host:
    host = hosts.find(tx, name)
    if host is None:
        raise NotFound(f"Compute host {name} could not be found.")
    return host


def _settle_zones(tx: Session, names: Iterable[str], default_zone: str) -> None:
    """Give hosts the zone of their aggregates. Raises Conflict for two zones, or with servers.

    The hosts' rows are locked, so that no server arrives meanwhile.
    """
    for name in names:
        host = _find_host(tx, name)
        zones = _zones_of(tx, name)
        if len(zones) > 1:
            raise Conflict(
                f"Host {name} would be in the availability zones {' and '.join(zones)}, and a "
                "host is in one only. Nothing was changed; take it out of the other aggregate "
                "first."
            )
        zone = zones[0] if zones else default_zone
        if host.zone == zone:
            continue
        # One that is on its way there, or may go back, asked for the zone of now.
        if _has_servers(tx, name) or migrations.count_at(tx, name):
            raise Conflict(
                f"Host {name} has servers, or servers move from it or to it, whose availability "
                f"zone would change from {host.zone} to {zone}. Nothing was changed; move, confirm "
                "or delete them first."
            )
        host.zone = zone
        tx.flush()


def _zones_of(tx: Session, name: str) -> list[str]:
    query = (
        select(Aggregate.zone)
        .join(AggregateHost, AggregateHost.aggregate_id == Aggregate.id)
        .where(AggregateHost.host == name, Aggregate.zone.is_not(None))
        .distinct()
    )
    return sorted(zone for zone in tx.execute(query).scalars() if zone)


def _has_servers(tx: Session, name: str) -> bool:
    query = select(Server.id).where(Server.host == name, Server.deleted_at.is_(None)).limit(1)
    return tx.execute(query).first() is not None
