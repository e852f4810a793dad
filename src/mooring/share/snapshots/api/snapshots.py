"""Snapshots of shares: /snapshots. Source: facts/shared_file_systems.md 8.2."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Struct, UnsetType

from mooring.share.service import Asked, Share
from mooring.share.snapshots import snapshot_list, snapshot_rows, snapshots
from mooring.share.wire import views
from mooring.share.wire.api import queries, values
from mooring.share.wire.api.metadata import MetadataOf, Rules
from mooring.share.wire.api.values import Flag, Metadata, Name, asked, renamed_action
from mooring.web import paging
from mooring.web.api import Api, Call, Reply

api = Api[Share]()

_ACTION = "/snapshots/{snapshot_id}/action"
_LABELS_SINCE = (2, 73)


class SnapshotBody(Struct, frozen=True):
    """A snapshot to take."""

    share_id: str
    name: Name | None = None
    description: Name | None = None
    display_name: Name | None = None
    display_description: Name | None = None
    force: Flag | None = None
    metadata: Metadata | None = None


class NamesBody(Struct, frozen=True):
    """What PUT changes, under the names of old and new clients."""

    name: Name | UnsetType | None = UNSET
    description: Name | UnsetType | None = UNSET
    display_name: Name | UnsetType | None = UNSET
    display_description: Name | UnsetType | None = UNSET


class StatusBody(Struct, frozen=True):
    """The value of `reset_status`."""

    status: str


@api.post("/snapshots", SnapshotBody, key="snapshot", policy="share:create_snapshot")
async def create_snapshot(call: Call[Share], body: SnapshotBody) -> Reply:
    """Take a snapshot of a share, while its clients use it."""
    metadata = body.metadata or {} if call.version >= _LABELS_SINCE else {}
    wanted = snapshots.NewSnapshot(
        share_id=body.share_id,
        name=body.display_name if body.name is None else body.name,
        description=body.display_description if body.description is None else body.description,
        metadata=values.check_metadata(metadata),
        force=body.force is not None and values.flag(body.force, "force"),
    )
    return await _reply(call, await snapshots.create(asked(call), wanted), status=202)


@api.get("/snapshots", policy="share_snapshot:get_all_snapshots")
async def list_snapshots(call: Call[Share]) -> Reply:
    """List ids and names."""
    return await _list(call, "/snapshots")


@api.get("/snapshots/detail", policy="share_snapshot:get_all_snapshots")
async def list_snapshots_in_detail(call: Call[Share]) -> Reply:
    """List everything."""
    return await _list(call, "/snapshots/detail")


@api.get("/snapshots/{snapshot_id}", policy="share_snapshot:get_snapshot")
async def show_snapshot(call: Call[Share]) -> Reply:
    """Show one."""
    return await _reply(call, call.path["snapshot_id"])


@api.put("/snapshots/{snapshot_id}", NamesBody, key="snapshot", policy="share:snapshot_update")
async def update_snapshot(call: Call[Share], body: NamesBody) -> Reply:
    """Change name and description."""
    changes = snapshots.Changes(
        name=body.display_name if body.name is UNSET else body.name,
        description=body.display_description if body.description is UNSET else body.description,
    )
    await snapshots.update(asked(call), call.path["snapshot_id"], changes)
    return await _reply(call, call.path["snapshot_id"])


@api.delete("/snapshots/{snapshot_id}", policy="share:delete_snapshot")
async def delete_snapshot(call: Call[Share]) -> Reply:
    """Delete it; the share keeps all that it holds."""
    await snapshots.delete(asked(call), call.path["snapshot_id"])
    return Reply(202)


@renamed_action(api.action, _ACTION, "force_delete", policy="share_snapshot:force_delete")
async def force_delete(call: Call[Share]) -> Reply:
    """Delete it in any status that nobody is at work on."""
    await snapshots.delete(asked(call), call.path["snapshot_id"], force=True)
    return Reply(202)


@renamed_action(
    api.action, _ACTION, "reset_status", StatusBody, policy="share_snapshot:reset_status"
)
async def reset_status(call: Call[Share], body: StatusBody) -> Reply:
    """Set the status by hand."""
    await snapshots.reset_status(asked(call), call.path["snapshot_id"], body.status)
    return Reply(202)


@api.get(
    "/snapshots/{snapshot_id}/export-locations",
    policy="share_snapshot:get_snapshot",
    since=(2, 32),
)
async def list_exports(call: Call[Share]) -> Reply:
    """List where clients mount the snapshot itself from: nowhere."""
    snapshot_id, read = call.path["snapshot_id"], call.service.store.read
    await read(lambda tx: snapshot_rows.visible(tx, call.who, snapshot_id).id)
    return Reply(200, {"share_snapshot_export_locations": []})


async def _reply(call: Call[Share], snapshot_id: str, *, status: int = 200) -> Reply:
    read = call.service.store.read
    row = await read(lambda tx: snapshot_rows.visible(tx, call.who, snapshot_id))
    return Reply(status, {"snapshot": views.snapshot(call, row)})


async def _list(call: Call[Share], path: str) -> Reply:
    query = queries.snapshots(call)
    with_count = call.version >= (2, 79) and values.read_flag(call.query, "with_count")

    def look(tx: Any) -> tuple[Any, int]:
        rows = snapshot_list.snapshots(tx, query)
        return rows, snapshot_list.count(tx, query) if with_count else 0

    rows, count = await call.service.store.read(look)
    show = views.snapshot if path.endswith("/detail") else views.snapshot_summary
    answer: dict[str, Any] = {"snapshots": [show(call, row) for row in rows]}
    ids = [row.id for row in rows]
    answer |= paging.links(call, path, query.page, ids, name="snapshots_links")
    if with_count:
        answer["count"] = count
    return Reply(200, answer)


async def _metadata(asked: Asked, snapshot_id: str) -> dict[str, str]:
    read = asked.share.store.read
    return await read(lambda tx: snapshot_rows.visible(tx, asked.who, snapshot_id).labels)


METADATA = MetadataOf(
    "snapshot",
    _LABELS_SINCE,
    Rules(
        read="share_snapshot:get_metadata",
        change="share_snapshot:update_metadata",
        remove="share_snapshot:delete_metadata",
    ),
    _metadata,
    snapshots.set_metadata,
    snapshots.delete_metadata,
)
METADATA.serve(api)
