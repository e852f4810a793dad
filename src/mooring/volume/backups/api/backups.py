"""Backups: /backups. Source: facts/block_storage.md 8.6 and 9.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from mooring import limits
from mooring.errors import Invalid
from mooring.volume.backups import backup_list, backup_rows, backups, restoring
from mooring.volume.backups.backups import NewBackup
from mooring.volume.service import Volume
from mooring.volume.wire import views
from mooring.volume.wire.api import queries, values
from mooring.volume.wire.api.values import Flag, Metadata, Name, asked
from mooring.web import paging
from mooring.web.api import Api, Call, Reply
from mooring.web.bodies import Since

if TYPE_CHECKING:
    from sqlalchemy import Row
    from sqlalchemy.orm import Session

api = Api[Volume]()

_ONE = "/backups/{backup_id}"
_Container = Annotated[str, Meta(min_length=1, max_length=limits.VOLUME_NAME_LENGTH)]


class BackupBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A backup to make."""

    volume_id: values.Uuid
    name: Name | None = None
    description: Name | None = None
    container: _Container | None = None
    incremental: Flag = False
    force: Flag = False
    snapshot_id: values.Uuid | None = None
    metadata: Annotated[Metadata | None, Since(3, 43)] = None
    availability_zone: Annotated[Name | None, Since(3, 51)] = None


class ChangesBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What may be changed of a backup."""

    name: Name | UnsetType | None = UNSET
    description: Name | UnsetType | None = UNSET
    metadata: Annotated[Metadata | UnsetType | None, Since(3, 43)] = UNSET


class RestoreBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Where a backup is to go: to a volume, or to a new one of this name."""

    volume_id: values.Uuid | None = None
    name: Name | None = None


@api.post("/backups", BackupBody, key="backup", policy="backup:create")
async def create_backup(call: Call[Volume], given: BackupBody) -> Reply:
    """Back up a volume, or a snapshot."""
    wanted = NewBackup(
        volume_id=given.volume_id,
        name=given.name,
        description=given.description,
        container=given.container,
        snapshot_id=given.snapshot_id,
        metadata=values.check_metadata(given.metadata or {}),
        zone=given.availability_zone,
        force=values.flag(given.force, "force"),
        incremental=values.flag(given.incremental, "incremental"),
    )
    row = await _load(call, await backups.create(asked(call), wanted))
    return Reply(202, {"backup": summary(call, row.id, row.name)})


@api.get("/backups", policy="backup:get_all")
async def list_backups(call: Call[Volume]) -> Reply:
    """List them."""
    return await _list(call, "/backups")


@api.get("/backups/detail", policy="backup:get_all")
async def list_backups_in_detail(call: Call[Volume]) -> Reply:
    """List them with all there is to say."""
    return await _list(call, "/backups/detail")


@api.get(_ONE, policy="backup:get")
async def show_backup(call: Call[Volume]) -> Reply:
    """Show one."""
    return Reply(200, {"backup": _show(call, await _load(call, call.path["backup_id"]))})


@api.put(_ONE, ChangesBody, key="backup", since=(3, 9), policy="backup:update")
async def update_backup(call: Call[Volume], given: ChangesBody) -> Reply:
    """Change name, description and metadata."""
    metadata = given.metadata
    changes = backups.Changes(
        name=given.name,
        description=given.description,
        metadata=UNSET if metadata is UNSET else values.check_metadata(metadata or {}),
    )
    if changes == backups.Changes():
        raise Invalid("Invalid input received: Nothing to change. Give name or description.")
    backup_id = call.path["backup_id"]
    await backups.update(asked(call), backup_id, changes)
    row = await _load(call, backup_id)
    return Reply(200, {"backup": summary(call, row.id, row.name)})


@api.delete(_ONE, policy="backup:delete")
async def delete_backup(call: Call[Volume]) -> Reply:
    """Delete it and its data."""
    await backups.delete(asked(call), call.path["backup_id"])
    return Reply(202)


@api.post(f"{_ONE}/restore", RestoreBody, key="restore", policy="backup:restore")
async def restore_backup(call: Call[Volume], given: RestoreBody) -> Reply:
    """Give a volume its content, or make one of it."""
    backup_id = call.path["backup_id"]
    found = await restoring.restore(asked(call), backup_id, given.volume_id, given.name)
    shown = {
        "backup_id": backup_id,
        "volume_id": found.volume_id,
        "volume_name": found.volume_name,
    }
    return Reply(202, {"restore": shown})


async def _load(call: Call[Volume], backup_id: str) -> Any:
    def look(tx: Session) -> Any:
        backup_rows.visible(tx, call.who, backup_id)
        return backup_list.backup(tx, backup_id)

    return await call.service.store.read(look)


async def _list(call: Call[Volume], path: str) -> Reply:
    query = queries.backups(call)
    with_count = call.version >= (3, 45) and values.read_flag(call.query, "with_count")

    def look(tx: Session) -> tuple[backup_list.Rows, int]:
        rows = backup_list.backups(tx, query)
        return rows, backup_list.count(tx, query) if with_count else 0

    rows, count = await call.service.store.read(look)
    in_detail = path.endswith("/detail")
    shown = [_show(call, row) if in_detail else summary(call, row.id, row.name) for row in rows]
    answer: dict[str, Any] = {"backups": shown}
    ids = [row.id for row in rows]
    answer |= paging.links(call, path, query.page, ids, name="backup_links")
    if with_count:
        answer["count"] = count
    return Reply(200, answer)


def summary(call: Call[Volume], backup_id: str, name: str | None) -> dict[str, Any]:
    """Return what is shown of a backup wherever it is named."""
    path = f"/backups/{backup_id}"
    links = [
        {"rel": "self", "href": call.url(path)},
        {"rel": "bookmark", "href": call.bookmark(path)},
    ]
    return {"id": backup_id, "name": name, "links": links}


def _show(call: Call[Volume], row: Row[Any]) -> dict[str, Any]:
    shown = {
        **summary(call, row.id, row.name),
        "status": row.status,
        "size": row.size_gib,
        "object_count": row.object_count,
        "availability_zone": row.zone,
        "container": row.container,
        "created_at": views.time(row.created_at),
        "updated_at": views.time(row.updated_at),
        "description": row.description,
        "fail_reason": row.fail_reason,
        "volume_id": row.volume_id,
        "is_incremental": row.parent_id is not None,
        "has_dependent_backups": bool(row.has_dependents),
        "snapshot_id": row.snapshot_id,
        "data_timestamp": views.time(row.data_at),
    }
    by_version = {
        (3, 43): {"metadata": row.metadata},
        (3, 56): {"user_id": row.user_id},
        (3, 64): {"encryption_key_id": None},
    }
    for since, more in by_version.items():
        if call.version >= since:
            shown |= more
    if call.version >= (3, 18) and call.allowed(
        "backup:backup_project_attribute", {"project_id": row.project_id}
    ):
        shown["os-backup-project-attr:project_id"] = row.project_id
    return shown
