"""Which volumes go back to which snapshot. Source: facts/block_storage.md 1.6."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.errors import Conflict, Invalid, NotFound
from mooring.volume.snapshots import snapshot_rows
from mooring.volume.snapshots.sagas.revert_volume import REVERT_VOLUME, RevertVolume
from mooring.volume.volumes import statuses, volumes

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.attachments.reserving import Asked
    from mooring.volume.tables import SnapshotRow, VolumeRow


async def revert(asked: Asked, volume_id: str, snapshot_id: str) -> None:
    """Start to give a volume the content of its newest snapshot; what was written since is lost.

    Raises NotFound for the volume; Invalid for a snapshot that is not its newest, or of another
    size; Conflict while the volume, or the snapshot, is not available.
    """

    def begin(tx: Session) -> None:
        row = volumes.visible(tx, asked.who, volume_id)
        snapshot = _find_snapshot(tx, asked, row, snapshot_id)
        for what, one in (("volume", row), ("snapshot", snapshot)):
            if one.status != "available":
                raise Conflict(
                    f"Invalid {what}: {what.capitalize()} {one.id} is {one.status}, and both "
                    "volume and snapshot must be available for a revert. Nothing was changed."
                    f"{statuses.way_out(one.status)}"
                )
        if row.backend is None:
            raise Invalid(f"Invalid volume: Volume {volume_id} has no storage. Delete it.")
        notes = RevertVolume(volume_id=row.id, snapshot_id=snapshot.id, backend=row.backend)
        asked.volume.sagas.start(tx, REVERT_VOLUME, notes, who=asked.who)

    await asked.volume.sagas.submit(begin)


def _find_snapshot(tx: Session, asked: Asked, row: VolumeRow, snapshot_id: str) -> SnapshotRow:
    """Return the newest snapshot of a volume, if that is the one. Raises Invalid."""
    try:
        snapshot_rows.visible(tx, asked.who, snapshot_id)
    except NotFound as error:
        raise Invalid(f"Invalid snapshot: {error.public} Nothing was changed.") from error
    there = snapshot_rows.of_volume(tx, row.id)
    newest = there[-1] if there else None
    if newest is None or newest.id != snapshot_id:
        raise Invalid(
            f"Invalid snapshot: {snapshot_id} is not the newest snapshot of volume {row.id}, and "
            "only to that one it is reverted. Nothing was changed; make a new volume from the "
            "snapshot, or delete the newer ones first."
        )
    if newest.size_gib != row.size_gib:
        raise Invalid(
            f"Invalid volume: Volume {row.id} has {row.size_gib} GiB, and snapshot {snapshot_id} "
            f"{newest.size_gib}: it has grown since. Nothing was changed; make a new volume from "
            "the snapshot."
        )
    return newest
