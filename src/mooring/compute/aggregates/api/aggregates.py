"""/os-aggregates (facts/compute.md 10.2, 11.5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy.orm import Session

from mooring.compute.aggregates import aggregates
from mooring.compute.aggregates.aggregates import ZONE, Changes
from mooring.compute.service import Compute
from mooring.compute.tables import Aggregate
from mooring.compute.wire.api import queries
from mooring.compute.wire.api.values import (
    MetadataKey,
    MetadataValue,
    Name,
    microsecond,
    whole,
)
from mooring.compute.wire.fields import LARGEST, Uuid
from mooring.errors import Invalid
from mooring.web.api import Api, Call, Reply, Version

api = Api[Compute]()

_RULE = "os_compute_api:os-aggregates:"
_PATH = "/os-aggregates/{aggregate_id}"
_UUID_SINCE: Version = (2, 41)
_CACHE_SINCE: Version = (2, 81)
_Zone = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"^[^\s:](?:[^:]*[^\s:])?\Z")]


class AggregateBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An aggregate to make."""

    name: Name
    availability_zone: _Zone | None = None


class ChangeBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What may change about one."""

    name: Name | UnsetType = UNSET
    availability_zone: _Zone | UnsetType | None = UNSET


class HostBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A host by its name."""

    host: Name


class MetadataBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Metadata to set; a key with null goes."""

    metadata: dict[MetadataKey, MetadataValue | None]


class ImageBody(Struct, frozen=True, forbid_unknown_fields=True):
    """An image by its id."""

    id: Uuid


@api.get("/os-aggregates", policy=f"{_RULE}index")
async def list_aggregates(call: Call[Compute]) -> Reply:
    """List all aggregates."""
    queries.check_keys(call, ())
    found = await call.service.store.read(
        lambda tx: _shown(tx, call.version, aggregates.find_all(tx))
    )
    return Reply(200, {"aggregates": found})


@api.post("/os-aggregates", AggregateBody, key="aggregate", only_key=True, policy=f"{_RULE}create")
async def create_aggregate(call: Call[Compute], body: AggregateBody) -> Reply:
    """Make an aggregate without hosts; its answer does not show them."""
    now = call.service.clock.now()
    made = await _write(
        call, lambda tx: aggregates.create(tx, body.name, body.availability_zone, now)
    )
    kept = {key: value for key, value in made.items() if key not in {"hosts", "metadata"}}
    return Reply(200, {"aggregate": kept})


@api.get(_PATH, policy=f"{_RULE}show")
async def show_aggregate(call: Call[Compute]) -> Reply:
    """One aggregate with its hosts."""
    queries.check_keys(call, ())
    found = await call.service.store.read(
        lambda tx: _shown(tx, call.version, [aggregates.find(tx, _id(call))])
    )
    return Reply(200, {"aggregate": found[0]})


@api.put(_PATH, ChangeBody, key="aggregate", only_key=True, policy=f"{_RULE}update")
async def update_aggregate(call: Call[Compute], body: ChangeBody) -> Reply:
    """Change the name or the zone."""
    if body.name is UNSET and body.availability_zone is UNSET:
        raise Invalid("Invalid input for field/attribute aggregate: nothing is to be changed.")
    changes = Changes(name=body.name, zone=body.availability_zone)
    return await _change(call, changes)


@api.delete(_PATH, policy=f"{_RULE}delete")
async def delete_aggregate(call: Call[Compute]) -> Reply:
    """Delete an aggregate that has no hosts."""
    await call.service.store.write(lambda tx: aggregates.remove(tx, _id(call)))
    return Reply(200)


@api.action(f"{_PATH}/action", "add_host", HostBody, policy=f"{_RULE}add_host")
async def add_host(call: Call[Compute], body: HostBody) -> Reply:
    """Put a host into it."""
    zone, now = call.service.settings.default_zone, call.service.clock.now()
    shown = await _write(call, lambda tx: aggregates.add_host(tx, _id(call), body.host, zone, now))
    return Reply(200, {"aggregate": shown})


@api.action(f"{_PATH}/action", "remove_host", HostBody, policy=f"{_RULE}remove_host")
async def remove_host(call: Call[Compute], body: HostBody) -> Reply:
    """Take a host out of it."""
    zone, now = call.service.settings.default_zone, call.service.clock.now()
    shown = await _write(
        call, lambda tx: aggregates.remove_host(tx, _id(call), body.host, zone, now)
    )
    return Reply(200, {"aggregate": shown})


@api.action(f"{_PATH}/action", "set_metadata", MetadataBody, policy=f"{_RULE}set_metadata")
async def set_metadata(call: Call[Compute], body: MetadataBody) -> Reply:
    """Set or remove keys of the metadata; `availability_zone` among them is its zone."""
    kept = dict(body.metadata)
    zone = kept.pop(ZONE, UNSET)
    if isinstance(zone, str) and (not zone or zone != zone.strip() or ":" in zone):
        raise Invalid(f"Invalid input for field/attribute {ZONE}. Value: '{zone[:64]}'.")
    return await _change(call, Changes(zone=zone, metadata=kept))


@api.post(
    f"{_PATH}/images", list[ImageBody], key="cache", policy=f"{_RULE}images", since=_CACHE_SINCE
)
async def cache_images(call: Call[Compute], body: list[ImageBody]) -> Reply:
    """Say that hosts fetch images when a server needs them, and not before."""
    await call.service.store.read(lambda tx: aggregates.find(tx, _id(call)).id)
    raise Invalid(
        "Fetching images to the hosts of an aggregate ahead of time is not built in this cloud. "
        "Nothing was changed; a host fetches an image with the first server that needs it.",
        status=501,
    )


async def _change(call: Call[Compute], changes: Changes) -> Reply:
    zone, now = call.service.settings.default_zone, call.service.clock.now()
    shown = await _write(call, lambda tx: aggregates.change(tx, _id(call), changes, zone, now))
    return Reply(200, {"aggregate": shown})


async def _write(call: Call[Compute], write: Callable[[Session], Aggregate]) -> dict[str, Any]:
    """Return the aggregate that a transaction has made or changed, as it is shown."""
    [shown] = await call.service.store.write(lambda tx: _shown(tx, call.version, [write(tx)]))
    return shown


def _id(call: Call[Compute]) -> int:
    # One below zero is a number, of which there is no aggregate: 404.
    return whole(call.path["aggregate_id"], "aggregate_id", least=-LARGEST)


def _shown(tx: Session, version: Version, rows: Sequence[Aggregate]) -> list[dict[str, Any]]:
    members = aggregates.hosts_of(tx, rows)
    return [_show(row, version, members.get(row.id, [])) for row in rows]


def _show(row: Aggregate, version: Version, names: list[str]) -> dict[str, Any]:
    zone = {ZONE: row.zone} if row.zone else {}
    body: dict[str, Any] = {
        "id": row.id,
        "name": row.name,
        "availability_zone": row.zone,
        "hosts": names,
        "metadata": {**row.details, **zone},
        "created_at": microsecond(row.created_at),
        "updated_at": microsecond(row.updated_at),
        "deleted": False,
        "deleted_at": None,
    }
    return body | ({"uuid": row.uuid} if version >= _UUID_SINCE else {})
