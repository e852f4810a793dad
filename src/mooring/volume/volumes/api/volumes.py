"""Volumes and their metadata: /volumes."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Struct, UnsetType, field

from mooring import limits
from mooring.clients.volume_forms import REACHED_BY
from mooring.errors import Invalid, NotFound
from mooring.volume.attachments.reserving import Asked
from mooring.volume.backups import restoring
from mooring.volume.service import Volume
from mooring.volume.volumes import deleting, listing, properties, volumes
from mooring.volume.volumes.api.bodies import NamesBody
from mooring.volume.wire import views
from mooring.volume.wire.api import queries, values
from mooring.volume.wire.api.metadata import MetadataOf
from mooring.volume.wire.api.values import Flag, Metadata, Name, asked
from mooring.web import paging
from mooring.web.api import Api, Call, Reply
from mooring.web.bodies import Since
from mooring.web.identity import is_service

api = Api[Volume]()

_CLOSED = (3, 53)
"""From here on a volume's unknown keys are refused."""


class VolumeBody(Struct, frozen=True):
    """A volume to make. `size` in GiB."""

    size: int | str | None = None
    name: Name | None = None
    description: Name | None = None
    display_name: Name | None = None
    display_description: Name | None = None
    volume_type: Name | None = None
    availability_zone: Name | None = None
    metadata: Metadata | None = None
    snapshot_id: str | None = None
    source_volid: str | None = None
    image_ref: str | None = field(name="imageRef", default=None)
    image_id: str | None = None
    consistencygroup_id: str | None = None
    group_id: str | None = None
    backup_id: Annotated[str | None, Since(3, 47)] = None
    multiattach: Flag | None = None


class ChangesBody(NamesBody, frozen=True):
    """What PUT changes."""

    metadata: Metadata | UnsetType | None = UNSET


@api.post("/volumes", VolumeBody, key="volume", closed_since=_CLOSED, policy="volume:create")
async def create_volume(call: Call[Volume], body: VolumeBody) -> Reply:
    """Make a volume. Scheduler hints beside it are taken and have no effect.

    A service may name the host that has to reach it (`REACHED_BY`), nobody else: users learn of no
    hosts.
    """
    wanted = _read_wanted(call, body)
    if body.backup_id:
        volume_id = await restoring.create_volume(asked(call), body.backup_id, wanted)
    else:
        volume_id = await volumes.create(asked(call), wanted)
    row, around = await _load(call, volume_id)
    return Reply(202, {"volume": views.volume(call, row, around)})


@api.get("/volumes", policy="volume:get_all")
async def list_volumes(call: Call[Volume]) -> Reply:
    """List ids and names."""
    return await _list(call, "/volumes")


@api.get("/volumes/detail", policy="volume:get_all")
async def list_details(call: Call[Volume]) -> Reply:
    """List everything."""
    return await _list(call, "/volumes/detail")


@api.get("/volumes/summary", policy="volume:get_all", since=(3, 12))
async def summarize(call: Call[Volume]) -> Reply:
    """Count volumes and GiB; from 3.36 on with the values of each metadata key."""
    query = queries.volumes(call)
    totals = await call.service.store.read(lambda tx: listing.sum_volumes(tx, query))
    summary: dict[str, Any] = {"total_count": totals.count, "total_size": totals.size_gib}
    if call.version >= (3, 36):
        summary["metadata"] = totals.metadata
    return Reply(200, {"volume-summary": summary})


@api.get("/volumes/{volume_id}", policy="volume:get")
async def show_volume(call: Call[Volume]) -> Reply:
    """Show one."""
    volume_id = call.path["volume_id"]
    row, around = await _load(call, volume_id)
    return Reply(200, {"volume": views.volume_detail(call, row, around)})


@api.put(
    "/volumes/{volume_id}",
    ChangesBody,
    key="volume",
    closed_since=_CLOSED,
    policy="volume:update",
)
async def update_volume(call: Call[Volume], body: ChangesBody) -> Reply:
    """Change name, description, metadata."""
    changes = _read_changes(body)
    if all(getattr(changes, name) is UNSET for name in changes.__struct_fields__):
        raise Invalid(
            "Invalid input received: Nothing to change. Give name, description or metadata."
        )
    volume_id = call.path["volume_id"]
    await properties.update(asked(call), volume_id, changes)
    row, around = await _load(call, volume_id)
    return Reply(200, {"volume": views.volume(call, row, around)})


@api.delete("/volumes/{volume_id}", policy="volume:delete")
async def delete_volume(call: Call[Volume]) -> Reply:
    """Delete; `cascade` takes its snapshots along."""
    force = call.version >= (3, 23) and values.read_flag(call.query, "force")
    if force:
        call.require("volume:force_delete")
    cascade = values.read_flag(call.query, "cascade")
    await deleting.delete(asked(call), call.path["volume_id"], force=force, cascade=cascade)
    return Reply(202)


@api.get("/volumes/{volume_id}/encryption", policy="volume_extension:volume_encryption_metadata")
async def show_encryption(call: Call[Volume]) -> Reply:
    """Show how it is encrypted; Nova asks before it connects a volume."""
    return Reply(200, await _encryption(call))


@api.get(
    "/volumes/{volume_id}/encryption/{key}", policy="volume_extension:volume_encryption_metadata"
)
async def show_encryption_key(call: Call[Volume]) -> Reply:
    """Show one word of it, by itself."""
    found, key = await _encryption(call), call.path["key"]
    if key not in found:
        raise NotFound(f"Of a volume's encryption nothing is called {key}.")
    return Reply(200, found[key])


async def _encryption(call: Call[Volume]) -> dict[str, Any]:
    volume_id = call.path["volume_id"]
    await call.service.store.read(lambda tx: volumes.visible(tx, call.who, volume_id).id)
    return {"encryption_key_id": None}


def _read_wanted(call: Call[Volume], body: VolumeBody) -> volumes.NewVolume:
    _refuse_sources(body)
    image_id = body.image_ref or body.image_id
    sources = image_id, body.snapshot_id, body.source_volid, body.backup_id
    if len([source for source in sources if source]) > 1:
        raise Invalid(
            "Invalid input received: A volume is made from an image, from a snapshot, from a "
            "backup or from a volume, and from one of them alone. Nothing was made.",
        )
    if image_id:
        call.require("volume:create_from_image")
    most = limits.VOLUME_SIZE_GIB
    size = body.size
    return volumes.NewVolume(
        size_gib=None if size is None else values.whole_number(size, "size", least=1, most=most),
        name=body.display_name if body.name is None else body.name,
        description=body.display_description if body.description is None else body.description,
        volume_type=body.volume_type,
        zone=body.availability_zone,
        metadata=values.user_metadata(body.metadata or {}),
        image_id=image_id,
        snapshot_id=body.snapshot_id or None,
        source_volume_id=body.source_volid or None,
        may_multiattach=call.allowed("volume:multiattach"),
        reached_by=call.request.headers.get(REACHED_BY, "") if is_service(call.who) else "",
    )


def _refuse_sources(body: VolumeBody) -> None:
    if body.multiattach is not None and values.flag(body.multiattach, "multiattach"):
        raise Invalid(
            "Invalid input received: multiattach is no property of a new volume. Use a volume type "
            "whose extra spec multiattach is '<is> True'.",
        )
    groups = body.group_id or body.consistencygroup_id
    if groups:
        raise NotFound(f"Group {groups} could not be found.")


def _read_changes(body: ChangesBody) -> properties.Changes:
    metadata = body.metadata
    return properties.Changes(
        name=body.display_name if body.name is UNSET else body.name,
        description=body.display_description if body.description is UNSET else body.description,
        metadata=metadata if metadata is UNSET else values.user_metadata(metadata or {}),
    )


async def _load(call: Call[Volume], volume_id: str) -> tuple[Any, listing.Surroundings]:
    return await call.service.store.read(lambda tx: listing.volume(tx, call.who, volume_id))


async def _list(call: Call[Volume], path: str) -> Reply:
    query = queries.volumes(call)
    with_count = call.version >= (3, 45) and values.read_flag(call.query, "with_count")
    detail = path.endswith("/detail")

    def look(tx: Any) -> tuple[listing.Rows, listing.Surroundings, int]:
        rows = listing.volumes(tx, query)
        around = listing.surroundings(tx, rows if detail else [])
        return rows, around, listing.count_volumes(tx, query) if with_count else 0

    rows, around, count = await call.service.store.read(look)
    shown = [
        views.volume_detail(call, row, around) if detail else views.volume_summary(call, row)
        for row in rows
    ]
    ids = [row.id for row in rows]
    answer: dict[str, Any] = {"volumes": shown}
    answer |= paging.links(call, path, query.page, ids, name="volumes_links")
    if with_count:
        answer["count"] = count
    return Reply(200, answer)


async def _metadata(asked: Asked, volume_id: str) -> dict[str, str]:
    def look(tx: Any) -> dict[str, str]:
        row = volumes.visible(tx, asked.who, volume_id)
        return {**row.labels, **views.size_to_reach(row)}

    return await asked.volume.store.read(look)


METADATA = MetadataOf(
    "volume",
    values.user_metadata,
    _metadata,
    properties.set_metadata,
    properties.delete_metadata,
    create="create",
)
METADATA.serve(api)
