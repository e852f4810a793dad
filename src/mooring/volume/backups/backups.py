"""Backups: what a client may ask for, and when. Source: facts/block_storage.md 1.8.

Policy is checked by the route. Errors: NotFound for what the caller may not see, Invalid for a
request or a state that forbids it (Cinder answers both with 400), OverQuota.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, UnsetType

from mooring import labels
from mooring.errors import Conflict, Invalid
from mooring.volume.backups import backup_rows, notices
from mooring.volume.backups.sagas.back_up_in_use import BACK_UP_IN_USE
from mooring.volume.backups.sagas.back_up_snapshot import BACK_UP_SNAPSHOT
from mooring.volume.backups.sagas.create_backup import CREATE_BACKUP
from mooring.volume.backups.sagas.delete_backup import DELETE_BACKUP, DeleteBackup
from mooring.volume.backups.sagas.making import CreateBackup
from mooring.volume.quotas import quota
from mooring.volume.snapshots import snapshot_rows, snapshots
from mooring.volume.tables import BackupRow, SnapshotRow, VolumeRow
from mooring.volume.volumes import statuses, volumes

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.attachments.reserving import Asked


class NewBackup(Struct, frozen=True, kw_only=True):
    """What POST /backups asks for. `force`: also of a volume in use."""

    volume_id: str
    name: str | None = None
    description: str | None = None
    container: str | None = None
    snapshot_id: str | None = None
    metadata: dict[str, str] = {}
    zone: str | None = None
    force: bool = False
    incremental: bool = False


class Changes(Struct, frozen=True, kw_only=True):
    """What PUT /backups/{id} may change."""

    name: str | UnsetType | None = UNSET
    description: str | UnsetType | None = UNSET
    metadata: dict[str, str] | UnsetType = UNSET


async def create(asked: Asked, wanted: NewBackup) -> str:
    """Write a backup down, start what makes it, and return its id."""
    volume = asked.volume

    def begin(tx: Session) -> str:
        row = _find_volume(tx, asked, wanted)
        snapshot = _find_snapshot(tx, asked, wanted) if wanted.snapshot_id else None
        is_used = wanted.force and snapshot is None and row.status == "in-use"
        backend = _require(row, snapshot, is_used=is_used)
        size_gib = row.size_gib if snapshot is None else snapshot.size_gib
        zone = volumes.check_zone(tx, volume, wanted.zone or row.zone)
        quota.claim_backup(tx, asked.who.project_id, size_gib)
        made = _add(tx, asked, wanted, row, snapshot)
        made.zone = zone
        made.parent_id = _find_parent(tx, asked, wanted, snapshot)
        tx.flush()
        notes = CreateBackup(
            backup_id=made.id,
            volume_id=row.id,
            backend=backend,
            snapshot_id=_begin_snapshot(tx, asked, made) if is_used else wanted.snapshot_id or "",
            parent_id=made.parent_id or "",
            is_temporary=is_used,
        )
        of_snapshot = BACK_UP_IN_USE if is_used else BACK_UP_SNAPSHOT
        saga = of_snapshot if notes.snapshot_id else CREATE_BACKUP
        volume.sagas.start(tx, saga, notes, who=asked.who)
        return made.id

    return await volume.sagas.submit(begin)


def _find_volume(tx: Session, asked: Asked, wanted: NewBackup) -> VolumeRow:
    """Return the volume to back up, which may be another's if a snapshot of it was kept.

    Raises NotFound for what the caller may not see.
    """
    if wanted.snapshot_id:
        kept = tx.get(SnapshotRow, wanted.snapshot_id, populate_existing=True)
        owner = kept.project_id if kept and kept.volume_id == wanted.volume_id else ""
        if owner == asked.who.project_id != "":
            return tx.get_one(VolumeRow, wanted.volume_id)
    return volumes.visible(tx, asked.who, wanted.volume_id)


def _find_snapshot(tx: Session, asked: Asked, wanted: NewBackup) -> SnapshotRow:
    """Return the snapshot to back up. Raises NotFound, Invalid when it cannot be now."""
    found = snapshot_rows.visible(tx, asked.who, wanted.snapshot_id or "")
    if found.volume_id != wanted.volume_id:
        raise Invalid(
            f"Invalid snapshot: Snapshot {found.id} is none of volume {wanted.volume_id}. Nothing "
            "was made."
        )
    if found.status != "available":
        raise Invalid(
            f"Invalid snapshot: Snapshot to be backed up must be available, but the current status "
            f'is "{found.status}". Nothing was made.'
        )
    return found


def _find_parent(
    tx: Session, asked: Asked, wanted: NewBackup, snapshot: SnapshotRow | None
) -> str | None:
    """Return the backup that an incremental one builds on. Raises Invalid when there is none."""
    if not wanted.incremental:
        return None
    before = None if snapshot is None else snapshot.created_at
    found = backup_rows.find_parent(tx, asked.who, wanted.volume_id, before)
    if found is None:
        raise Invalid(
            "Invalid backup: No backups available to do an incremental backup. Nothing was made; "
            "ask for a full backup first."
        )
    return found.id


def _begin_snapshot(tx: Session, asked: Asked, backup: BackupRow) -> str:
    """Have a snapshot taken for a backup of a volume in use. Raises Invalid, OverQuota."""
    wanted = snapshots.NewSnapshot(
        volume_id=backup.volume_id,
        name=f"for backup {backup.id}",
        description="It is deleted as soon as the backup needs it no more.",
        force=True,
    )
    return snapshots.begin(tx, asked, wanted).id


def _require(row: VolumeRow, snapshot: SnapshotRow | None, *, is_used: bool) -> str:
    """Return where lies what can be backed up now. Raises Invalid."""
    is_free = row.status == "available" and not volumes.is_migrating(row)
    if snapshot is None and not is_used and not is_free:
        raise Invalid(
            f"Invalid volume: Volume {row.id} to be backed up must be available, but the current "
            f'status is "{row.status}". Nothing was made; of a volume in use ask for a backup with '
            f"force, which takes a snapshot for it.{statuses.way_out(row.status)}"
        )
    if row.backend is None:
        raise Invalid(f"Invalid volume: Volume {row.id} has no storage. Delete it.")
    return row.backend


def _add(
    tx: Session, asked: Asked, wanted: NewBackup, row: VolumeRow, snapshot: SnapshotRow | None
) -> BackupRow:
    now = asked.volume.clock.now()
    is_kept = snapshot is not None and snapshot.project_id != row.project_id
    made = BackupRow(
        id=str(uuid.uuid4()),
        project_id=asked.who.project_id,
        user_id=asked.who.user_id,
        name=wanted.name,
        description=wanted.description,
        volume_id=row.id,
        snapshot_id=wanted.snapshot_id,
        size_gib=row.size_gib if snapshot is None else snapshot.size_gib,
        status="creating",
        zone=row.zone,
        container=wanted.container,
        object_count=0,
        labels=labels.merge({}, wanted.metadata, whole=True),
        bootable=(snapshot or row).bootable,
        image_metadata=(snapshot or row).image_metadata,
        # What another project says of its volume by now is not told.
        volume_labels={} if is_kept else row.labels,
        saga_id="",
        borrowed_by="",
        data_at=now if snapshot is None else snapshot.created_at,
        created_at=now,
    )
    tx.add(made)
    return made


async def delete(asked: Asked, backup_id: str, *, force: bool = False) -> None:
    """Start to delete a backup; with `force` in any status that nobody is at work on."""

    def begin(tx: Session) -> None:
        backup_rows.take_turn(tx)
        row = backup_rows.visible(tx, asked.who, backup_id)
        if row.saga_id and row.status == "deleting":
            return
        backup_rows.lock(tx, row)
        if backup_rows.count_dependents(tx, row.id):
            raise Invalid(
                "Invalid backup: Incremental backups exist for this backup. Nothing was changed; "
                "delete those that build on it first, the newest one before the others."
            )
        allowed = (row.status,) if force and not row.saga_id else backup_rows.DELETABLE
        now = asked.volume.clock.now()
        backup_rows.take(tx, row, allowed=allowed, status="deleting", now=now)
        asked.volume.sagas.start(tx, DELETE_BACKUP, DeleteBackup(backup_id=row.id), who=asked.who)

    await asked.volume.sagas.submit(begin)


async def update(asked: Asked, backup_id: str, changes: Changes) -> None:
    """Change name, description or metadata."""

    def change(tx: Session) -> None:
        row = backup_rows.visible(tx, asked.who, backup_id)
        if changes.name is not UNSET:
            row.name = changes.name
        if changes.description is not UNSET:
            row.description = changes.description
        if changes.metadata is not UNSET:
            row.labels = labels.merge(row.labels, changes.metadata, whole=True)
        row.updated_at = asked.volume.clock.now()

    await asked.volume.store.write(change)


async def reset_status(asked: Asked, backup_id: str, status: str) -> None:
    """Set the status by hand. Raises Conflict while an operation is at work on the backup."""

    def change(tx: Session) -> None:
        row = backup_rows.visible(tx, asked.who, backup_id)
        if row.saga_id:
            raise Conflict(
                f"Backup {backup_id} is {row.status} (operation {row.saga_id}), which ends by "
                "itself. Nothing was changed; abort the operation if it must not go on.",
            )
        row.status, row.updated_at = status, asked.volume.clock.now()
        lent = status in backup_rows.TRANSITIONAL
        row.borrowed_by = asked.who.user_id if lent else ""
        notices.send(tx, asked.volume, backup_id, "reset_status.start")
        notices.send(tx, asked.volume, backup_id, "reset_status.end")

    await asked.volume.store.write(change)
