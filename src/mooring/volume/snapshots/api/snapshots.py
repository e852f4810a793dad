"""Snapshots: /snapshots. Source: facts/block_storage.md 8.3 and 9.3."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from mooring.errors import Invalid, NotFound
from mooring.volume.attachments.reserving import Asked
from mooring.volume.service import Volume
from mooring.volume.snapshots import snapshot_list, snapshot_rows, snapshots
from mooring.volume.snapshots.snapshots import NewSnapshot
from mooring.volume.volumes.api.bodies import NamesBody
from mooring.volume.wire import views
from mooring.volume.wire.api import queries, values
from mooring.volume.wire.api.metadata import MetadataOf
from mooring.volume.wire.api.values import Flag, Metadata, Name, asked
from mooring.web import paging
from mooring.web.api import Api, Call, Reply

api = Api[Volume]()

_ACTION = "/snapshots/{snapshot_id}/action"
_ADMIN = "volume_extension:snapshot_admin_actions"

Status = Literal[
    "available",
    "creating",
    "deleting",
    "error",
    "error_deleting",
    "deleted",
    "updating",
    "unmanaging",
    "backing-up",
    "restoring",
]


class SnapshotBody(Struct, frozen=True):
    """A snapshot to take. From 3.66 on `force` may only be true, and says nothing."""

    volume_id: values.Uuid | None
    """Null is no malformed request, but a volume that is not there."""
    name: Name | None = None
    description: Name | None = None
    display_name: Name | None = None
    display_description: Name | None = None
    metadata: Metadata | None = None
    force: Flag | UnsetType = UNSET


class ResetBody(Struct, frozen=True):
    """The value of `os-reset_status`."""

    status: Status


class TellBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `os-update_snapshot_status`: a status, and how much is done as "NN%"."""

    status: Literal["creating", "available", "error", "deleting", "error_deleting"]
    progress: str | None = None


@api.post("/snapshots", SnapshotBody, key="snapshot", policy="volume:create_snapshot")
async def create_snapshot(call: Call[Volume], given: SnapshotBody) -> Reply:
    """Take a snapshot of a volume."""
    if given.volume_id is None:
        raise NotFound("Volume None could not be found. Nothing was made; name a volume.")
    wanted = NewSnapshot(
        volume_id=given.volume_id,
        name=given.display_name if given.name is None else given.name,
        description=(given.display_description if given.description is None else given.description),
        metadata=values.check_metadata(given.metadata or {}),
        force=_read_force(call, given.force),
    )
    row = await _load(call, await snapshots.create(asked(call), wanted))
    return Reply(202, {"snapshot": views.snapshot(call, row)})


@api.get("/snapshots", policy="volume:get_all_snapshots")
async def list_snapshots(call: Call[Volume]) -> Reply:
    """List them."""
    return await _list(call, "/snapshots")


@api.get("/snapshots/detail", policy="volume:get_all_snapshots")
async def list_snapshots_in_detail(call: Call[Volume]) -> Reply:
    """List them with their progress."""
    return await _list(call, "/snapshots/detail")


@api.get("/snapshots/{snapshot_id}", policy="volume:get_snapshot")
async def show_snapshot(call: Call[Volume]) -> Reply:
    """Show one."""
    row = await _load(call, call.path["snapshot_id"])
    return Reply(200, {"snapshot": views.snapshot_detail(call, row)})


@api.put("/snapshots/{snapshot_id}", NamesBody, key="snapshot", policy="volume:update_snapshot")
async def update_snapshot(call: Call[Volume], given: NamesBody) -> Reply:
    """Change name and description."""
    snapshot_id = call.path["snapshot_id"]
    name = given.display_name if given.name is UNSET else given.name
    text = given.display_description if given.description is UNSET else given.description
    if name is UNSET and text is UNSET:
        raise Invalid("Invalid input received: Nothing to change. Give name or description.")
    changes = snapshots.Changes(name=name, description=text)
    await snapshots.update(asked(call), snapshot_id, changes)
    return Reply(200, {"snapshot": views.snapshot(call, await _load(call, snapshot_id))})


@api.delete("/snapshots/{snapshot_id}", policy="volume:delete_snapshot")
async def delete_snapshot(call: Call[Volume]) -> Reply:
    """Delete it; the volume keeps all that it holds."""
    await snapshots.delete(asked(call), call.path["snapshot_id"])
    return Reply(202)


@api.action(_ACTION, "os-reset_status", ResetBody, policy=f"{_ADMIN}:reset_status")
async def reset_status(call: Call[Volume], body: ResetBody) -> Reply:
    """Set the status by hand."""
    await snapshots.reset_status(asked(call), call.path["snapshot_id"], body.status)
    return Reply(202)


@api.action(_ACTION, "os-force_delete", policy=f"{_ADMIN}:force_delete")
async def force_delete(call: Call[Volume]) -> Reply:
    """Delete it whatever its status."""
    await snapshots.delete(asked(call), call.path["snapshot_id"], force=True)
    return Reply(202)


@api.action(
    _ACTION,
    "os-update_snapshot_status",
    TellBody,
    policy="volume_extension:snapshot_actions:update_snapshot_status",
)
async def tell_status(call: Call[Volume], body: TellBody) -> Reply:
    """Take in what the compute service says of its part of a snapshot."""
    progress = None if body.progress is None else _read_progress(body.progress)
    await snapshots.tell(asked(call), call.path["snapshot_id"], body.status, progress)
    return Reply(202)


def _read_force(call: Call[Volume], force: Flag | UnsetType) -> bool:
    forced = force is not UNSET and values.flag(force, "force")
    if call.version < (3, 66):
        return forced
    if force is not UNSET and not forced:
        raise Invalid(
            "Invalid input received: Since microversion 3.66 the force flag is invalid with the "
            "value false: a volume in use is snapshotted anyway. Leave it out.",
        )
    return True


def _read_progress(text: str) -> int:
    number = text.strip().removesuffix("%")
    return values.whole_number(number, "progress", least=0, most=100)


async def _load(call: Call[Volume], snapshot_id: str) -> Any:
    def look(tx: Any) -> Any:
        snapshot_rows.visible(tx, call.who, snapshot_id)
        return snapshot_list.snapshot(tx, snapshot_id)

    return await call.service.store.read(look)


async def _list(call: Call[Volume], path: str) -> Reply:
    query = queries.snapshots(call)
    with_count = call.version >= (3, 45) and values.read_flag(call.query, "with_count")

    def look(tx: Any) -> tuple[snapshot_list.Rows, int]:
        rows = snapshot_list.snapshots(tx, query)
        return rows, snapshot_list.count(tx, query) if with_count else 0

    rows, count = await call.service.store.read(look)
    show = views.snapshot_detail if path.endswith("/detail") else views.snapshot
    answer: dict[str, Any] = {"snapshots": [show(call, row) for row in rows]}
    ids = [row.id for row in rows]
    answer |= paging.links(call, path, query.page, ids, name="snapshots_links")
    if with_count:
        answer["count"] = count
    return Reply(200, answer)


async def _metadata(asked: Asked, snapshot_id: str) -> dict[str, str]:
    read = asked.volume.store.read
    return await read(lambda tx: snapshot_rows.visible(tx, asked.who, snapshot_id).labels)


METADATA = MetadataOf(
    "snapshot",
    values.check_metadata,
    _metadata,
    snapshots.set_metadata,
    snapshots.delete_metadata,
)
METADATA.serve(api)
