"""Snapshots of volumes that guests use: asked for by the volume service, for files.

It answers at once; how it ended is told to the volume service, by the snapshot's status
(facts/block_storage.md 5.2). Two calls of one operation are one, and a call behind the undo of its
operation is 410; burying the operation ends the work (`mooring.web.app`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.agent_api.overlays import check_name
from mooring.compute.hosts import hosts
from mooring.compute.servers import servers, states
from mooring.compute.snapshots.sagas.delete_volume_snapshot import (
    DELETE_VOLUME_SNAPSHOT,
    DeleteVolumeSnapshot,
)
from mooring.compute.snapshots.sagas.snapshot_volume import SNAPSHOT_VOLUME, SnapshotVolume
from mooring.compute.tables import Server
from mooring.compute.volumes import devices
from mooring.errors import Conflict, Invalid, NotFound
from mooring.fence import table as fence
from mooring.saga import locks

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.tables import BlockDevice
    from mooring.fence.operation import Operation


class NewSnapshot(Struct, frozen=True, kw_only=True):
    """What to take: `new_file` lies beside the volume's file and stands on it."""

    volume_id: str
    snapshot_id: str
    new_file: str


class OldSnapshot(Struct, frozen=True, kw_only=True):
    """What to merge so that a snapshot may go, as `agent_api.overlays.MergeRequest` says it."""

    volume_id: str
    snapshot_id: str
    file_to_merge: str | None = None
    merge_target_file: str | None = None


async def create(compute: Compute, wanted: NewSnapshot, operation: Operation | None) -> None:
    """Begin to let the guest write to the new file.

    Raises NotFound when no server has the volume, Invalid: several may, or the file's name is none;
    Conflict while the server is busy or its host down.
    """
    check_name(wanted.new_file)

    def begin(tx: Session) -> str:
        row, host = _find(tx, compute, wanted.volume_id, "volume_snapshot_create")
        notes = SnapshotVolume(
            server_id=row.server_id,
            volume_id=wanted.volume_id,
            block_device_id=row.id,
            host=host,
            snapshot_id=wanted.snapshot_id,
            new_file=wanted.new_file,
        )
        return compute.sagas.start(tx, SNAPSHOT_VOLUME, notes)

    resource = f"volumes/{wanted.volume_id}/snapshots/{wanted.snapshot_id}"
    await _submit(compute, wanted.volume_id, _once(operation, resource, begin))


async def delete(compute: Compute, old: OldSnapshot, operation: Operation | None) -> None:
    """Begin to merge files, in turn with other work on the volume. Raises as `create` does."""
    for name in (old.file_to_merge, old.merge_target_file):
        if name is not None:
            check_name(name)
    if old.merge_target_file is not None and old.file_to_merge is None:
        raise Invalid("A merge_target_file needs a file_to_merge. Nothing was changed.")

    def begin(tx: Session) -> str:
        row, host = _find(tx, compute, old.volume_id, "volume_snapshot_delete")
        notes = DeleteVolumeSnapshot(
            server_id=row.server_id,
            volume_id=old.volume_id,
            block_device_id=row.id,
            host=host,
            snapshot_id=old.snapshot_id,
            file_to_merge=old.file_to_merge,
            merge_target_file=old.merge_target_file,
        )
        if operation is not None:
            _require_free(tx, notes)
        return compute.sagas.start(tx, DELETE_VOLUME_SNAPSHOT, notes)

    resource = f"volumes/{old.volume_id}/merges/{old.snapshot_id}"
    await _submit(compute, old.volume_id, _once(operation, resource, begin))


def _require_free(tx: Session, notes: DeleteVolumeSnapshot) -> None:
    """Raise Conflict while others are at work, for a caller that holds the volume meanwhile.

    One that sends operations begins anew; a real Cinder waits in order, and holds nothing of ours.
    """
    holders = locks.find_obstacles(tx, DELETE_VOLUME_SNAPSHOT.locks(notes), frozenset())
    if holders:
        raise Conflict(
            f"Volume {notes.volume_id} or its server {notes.server_id} is in use by another "
            "operation. Nothing was changed; try again when it has ended.",
            holder=holders[0],
        )


def _once(
    operation: Operation | None, resource: str, begin: Callable[[Session], str]
) -> Callable[[Session], None]:
    """Return `begin` behind the fence: it starts one saga for each operation, none after its end.

    Both calls are deeds, so the fence knows either as a POST: its DELETE would be an undo.
    """

    def admitted(tx: Session) -> None:
        if fence.admit(tx, operation, resource, verb="POST") is None:
            made = [begin(tx)]
            fence.record(tx, operation, resource, fence.Answer(), made, verb="POST")

    return admitted


async def _submit(compute: Compute, volume_id: str, begin: Callable[[Session], None]) -> None:
    await servers.submit(compute, "snapshot a volume of", f"with volume {volume_id}", begin)


def _find(tx: Session, compute: Compute, volume_id: str, action: str) -> tuple[BlockDevice, str]:
    """Return the block device of the one server that has a volume, and its host."""
    rows = devices.of_volume(tx, volume_id)
    if not rows:
        raise NotFound(f"No server has volume {volume_id}.")
    if len(rows) > 1 or rows[0].multiattach:
        raise Invalid(
            f"Volume {volume_id} may be in several servers at once, and its files cannot be "
            "switched under all of them. Nothing was changed."
        )
    server = tx.get(Server, rows[0].server_id)
    if server is None or server.deleted_at is not None:
        raise NotFound(f"No server has volume {volume_id}.")
    if server.task_state is not None:
        why = states.refusal(server.id, action, "task_state", server.task_state)
        raise Conflict(why.public, busy=True)
    if not server.host:
        raise Conflict(f"Instance {server.id} has no host. Nothing was changed; start it first.")
    now, down_after_s = compute.clock.now(), compute.settings.host_down_s
    return rows[0], hosts.require_up(tx, server.host, now, down_after_s).name
