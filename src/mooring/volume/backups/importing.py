"""Records of backups: which may leave a cloud, and which it takes in.

Policy is checked by the route. Errors: NotFound for what the caller may not see, Invalid for a
record that cannot be taken in, OverQuota. Source: facts/block_storage.md 8.6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring import labels
from mooring.errors import Invalid
from mooring.volume.backups import backup_rows, records
from mooring.volume.backups.sagas.import_backup import IMPORT_BACKUP, ImportBackup
from mooring.volume.quotas import quota
from mooring.volume.tables import BackupRow
from mooring.volume.volumes import volumes

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.attachments.reserving import Asked
    from mooring.volume.backups.records import Record

_WHOLE = ("available", "restoring")
"""Statuses of a backup whose data are there and stay."""


async def export(asked: Asked, backup_id: str) -> Record:
    """Return the record of a backup. Raises Invalid for one that is not available."""

    def look(tx: Session) -> Record:
        row = backup_rows.visible(tx, asked.who, backup_id)
        if row.status != "available":
            raise Invalid(
                f"Invalid backup: Backup {backup_id} status must be available to be exported, but "
                f"it is {row.status}. Nothing was changed."
            )
        place = backup_rows.find_place(tx, backup_id)
        if not place:
            raise Invalid(
                f"Invalid backup: Backup {backup_id} has no data in the store, whatever its status "
                "says. Nothing was changed; delete it."
            )
        return records.of_backup(row, place)

    return await asked.volume.store.read(look)


async def take_in(asked: Asked, record: Record) -> str:
    """Write down the backup of a record, start what looks for its data, and return its id."""

    def begin(tx: Session) -> str:
        backup_rows.take_turn(tx)
        # Whosever it is: administrators alone import, and see all there are.
        known = tx.get(BackupRow, record.id, populate_existing=True)
        if known is not None:
            raise Invalid(
                f"Invalid backup: Backup {record.id} is here already, {known.status}. Nothing was "
                "imported; delete it first if the record is to take its place."
            )
        _require_parent(tx, asked, record)
        _require_place(tx, record)
        quota.claim_backup(tx, asked.who.project_id, record.size)
        tx.add(_row_of(tx, asked, record))
        tx.flush()
        notes = ImportBackup(backup_id=record.id)
        asked.volume.sagas.start(tx, IMPORT_BACKUP, notes, who=asked.who)
        return record.id

    return await asked.volume.sagas.submit(begin)


def _require_parent(tx: Session, asked: Asked, record: Record) -> None:
    """Raise Invalid for a record that builds on a backup which is not there."""
    if record.parent_id is None:
        return
    # Likewise; what is another project's is refused.
    parent = tx.get(BackupRow, record.parent_id, populate_existing=True)
    if parent is None or parent.project_id != asked.who.project_id:
        raise Invalid(
            f"Invalid backup: The record builds on backup {record.parent_id}, which is not in "
            f"project {asked.who.project_id}. Nothing was imported; import that one's record "
            "first, to the same project."
        )
    if parent.status not in _WHOLE:
        raise Invalid(
            f"Invalid backup: The record builds on backup {parent.id}, which is {parent.status}. "
            "Nothing was imported; see to that one first."
        )


def _require_place(tx: Session, record: Record) -> None:
    """Raise Invalid where somebody is about to write, or to remove, the data of a record."""
    for other_id, status in backup_rows.of_place(tx, record.stored_as).items():
        if status not in _WHOLE:
            raise Invalid(
                f"Invalid backup: The record's data are those of backup {other_id}, which is "
                f"{status}. Nothing was imported; ask again when that one is available, or "
                "gone."
            )


def _row_of(tx: Session, asked: Asked, record: Record) -> BackupRow:
    return BackupRow(
        id=record.id,
        project_id=asked.who.project_id,
        user_id=asked.who.user_id,
        name=record.name,
        description=record.description,
        volume_id=record.volume_id,
        snapshot_id=record.snapshot_id,
        parent_id=record.parent_id,
        stored_as=None if record.stored_as == record.id else record.stored_as,
        size_gib=record.size,
        status="creating",
        zone=_find_zone(tx, asked, record),
        container=record.container,
        object_count=record.object_count,
        labels=labels.merge({}, record.metadata, whole=True),
        bootable=record.bootable,
        image_metadata=record.image_metadata,
        volume_labels=record.volume_metadata,
        saga_id="",
        borrowed_by="",
        data_at=record.data_timestamp,
        created_at=record.created_at,
        updated_at=asked.volume.clock.now(),
    )


def _find_zone(tx: Session, asked: Asked, record: Record) -> str:
    """Return the zone that a record names, or the usual one where another cloud has others."""
    try:
        return volumes.check_zone(tx, asked.volume, record.availability_zone)
    except Invalid:
        return asked.volume.settings.default_zone
