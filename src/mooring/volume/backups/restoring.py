"""Which backup is restored to which volume: a given one, or a new one.

Policy is checked by the route. Errors: NotFound for what the caller may not see, Invalid for a
state or a size that forbids it, OverQuota. Source: facts/block_storage.md 1.2 and 1.8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring.errors import Invalid
from mooring.fence import table as fence
from mooring.fence.table import Answer
from mooring.volume.backups import backup_rows
from mooring.volume.backups.sagas.create_from_backup import (
    CREATE_VOLUME_FROM_BACKUP,
    CreateFromBackup,
)
from mooring.volume.backups.sagas.restore_backup import RESTORE_BACKUP, RestoreBackup
from mooring.volume.snapshots import snapshot_rows
from mooring.volume.snapshots.snapshot_rows import Source
from mooring.volume.tables import VolumeRow
from mooring.volume.volumes import statuses, volumes

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.attachments.reserving import Asked
    from mooring.volume.tables import BackupRow
    from mooring.volume.volumes.volumes import NewVolume

_DESCRIPTION = "auto-created_from_restore_from_backup"


class Restored(Struct, frozen=True):
    """Where a backup goes."""

    volume_id: str
    volume_name: str | None


async def restore(
    asked: Asked, backup_id: str, volume_id: str | None, name: str | None
) -> Restored:
    """Start to restore a backup, to a new volume called `name` where none is given."""

    def begin(tx: Session) -> Restored:
        backup = backup_rows.visible(tx, asked.who, backup_id)
        if volume_id is not None:
            row = volumes.visible(tx, asked.who, volume_id)
            _begin_restoring(tx, asked, backup, row)
            return Restored(row.id, row.name)
        wanted = volumes.NewVolume(
            name=name or f"restore_backup_{backup_id}", description=_DESCRIPTION
        )
        row = _begin_creating(tx, asked, backup, wanted, is_restored=True)
        return Restored(row.id, row.name)

    return await asked.volume.sagas.submit(begin)


async def create_volume(asked: Asked, backup_id: str, wanted: NewVolume) -> str:
    """Write a volume down that is made from a backup, start what makes it, and return its id."""
    resource = f"saga:{asked.operation.saga}" if asked.operation else ""

    def begin(tx: Session) -> str:
        earlier = fence.admit(tx, asked.operation, resource, verb="POST")
        if earlier is not None:
            return earlier.body
        backup = backup_rows.visible(tx, asked.who, backup_id)
        row = _begin_creating(tx, asked, backup, wanted, is_restored=False)
        fence.record(tx, asked.operation, resource, Answer(body=row.id), [row.id], verb="POST")
        return row.id

    return await asked.volume.sagas.submit(begin)


def _begin_restoring(tx: Session, asked: Asked, backup: BackupRow, row: VolumeRow) -> None:
    if row.status != "available" or volumes.is_migrating(row) or row.backend is None:
        raise Invalid(
            f"Invalid volume: Volume {row.id} to be restored to must be available, but it is "
            f"{row.status}. Nothing was changed.{statuses.way_out(row.status)}"
        )
    if row.size_gib < backup.size_gib:
        raise Invalid(
            f"Invalid volume: Volume {row.id} has {row.size_gib}GB, which is too small for the "
            f"{backup.size_gib}GB of backup {backup.id}. Nothing was changed; extend it first."
        )
    if snapshot_rows.of_volume(tx, row.id):
        raise Invalid(
            f"Invalid volume: Volume {row.id} has snapshots, which share its bytes. Nothing was "
            "changed; delete them, or restore to a new volume."
        )
    _take(tx, asked, backup)
    notes = RestoreBackup(
        backup_id=backup.id,
        volume_id=row.id,
        backend=row.backend,
        bootable=backup.bootable,
        image_metadata=backup.image_metadata,
        labels=backup.volume_labels,
    )
    asked.volume.sagas.start(tx, RESTORE_BACKUP, notes, who=asked.who)


def _begin_creating(
    tx: Session, asked: Asked, backup: BackupRow, wanted: NewVolume, *, is_restored: bool
) -> VolumeRow:
    _take(tx, asked, backup)
    wanted = replace(wanted, metadata={**(backup.volume_labels or {}), **wanted.metadata})
    row = volumes.add(tx, asked, wanted, None, _source_of(tx, asked, backup))
    notes = CreateFromBackup(
        volume_id=row.id, size_gib=row.size_gib, backup_id=backup.id, is_restored=is_restored
    )
    asked.volume.sagas.start(tx, CREATE_VOLUME_FROM_BACKUP, notes, who=asked.who)
    return row


def _take(tx: Session, asked: Asked, backup: BackupRow) -> None:
    now = asked.volume.clock.now()
    backup_rows.take(tx, backup, allowed=("available",), status="restoring", now=now)


def _source_of(tx: Session, asked: Asked, backup: BackupRow) -> Source:
    """Return what the new volume takes over; its type is the old one's, while that is there."""
    # Nothing is shown of it; whose type it gives up is the backup's own project.
    old = tx.get(VolumeRow, backup.volume_id)
    kept = old is not None and old.project_id == backup.project_id
    usual = asked.volume.settings.default_type
    return Source(
        snapshot_id="",
        volume_id=backup.volume_id,
        size_gib=backup.size_gib,
        backend="",
        zone=backup.zone,
        type=old.volume_type_id if old is not None and kept else usual,
        bootable=backup.bootable,
        image_metadata=backup.image_metadata,
    )
