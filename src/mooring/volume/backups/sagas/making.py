"""What the sagas share that make a backup: its copy at the host, and what is shown and stored.

A backup that failed is in `error`, without data; where the store cannot be reached it may have
some, and what was to be backed up is not kept waiting for that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import update
from sqlalchemy.orm import Session

from mooring.agent_api.client import AgentClient
from mooring.errors import MooringError, Unavailable
from mooring.saga.define import Run, Together
from mooring.volume.backends import backends
from mooring.volume.backups import backup_rows, carrying
from mooring.volume.backups.limits import BACKUP_UNDO_ATTEMPTS
from mooring.volume.snapshots.sagas import deleting
from mooring.volume.tables import BackupRow, SnapshotRow
from mooring.volume.volumes import filling, statuses

if TYPE_CHECKING:
    from mooring.volume.backups.stores.base import Manifest
    from mooring.volume.service import Volume
    from mooring.who import Who

BACKING_UP = "backing-up"
CAPTURE = "capture_volume"


class CreateBackup(Struct, frozen=True, kw_only=True):
    """The notes. With a `snapshot_id` that is what is backed up, and what is shown to be.

    `parent_id` is the backup that it builds on; "" when it is full. A snapshot that `is_temporary`
    was taken for this backup alone, and is deleted once it is not needed.
    """

    backup_id: str
    volume_id: str
    backend: str
    snapshot_id: str = ""
    parent_id: str = ""
    is_temporary: bool = False


def lock_of(notes: CreateBackup) -> str:
    """Return the key of the backup, which is let go once it is shown.

    Its host's copy is removed without it: whoever restores or deletes it waits for no host.
    """
    return f"backup:{notes.backup_id}"


def begin_backup(tx: Session, notes: CreateBackup, run: Run[Volume]) -> None:
    """Show it."""
    backup_rows.give(tx, notes.backup_id, run.saga_id)
    _show(tx, notes, run, "available", BACKING_UP)


def show_failure(tx: Session, notes: CreateBackup, run: Run[Volume]) -> None:
    """Say why there is no backup; what was to be backed up can be used again."""
    _fail(tx, notes, run, "It was given up." if run.error is None else run.error.public)


async def capture_volume(notes: CreateBackup, run: Run[Volume]) -> None:
    """Have the host copy it."""
    agent = await _agent(notes, run)
    copying = agent.put_volume_capture(
        notes.volume_id,
        notes.backup_id,
        carrying.FORMAT,
        snapshot_id=notes.snapshot_id,
        operation=run.operation,
    )
    await filling.follow(run, agent, notes.volume_id, copying)


async def remove_capture(notes: CreateBackup, run: Run[Volume]) -> None:
    """Have the host stop copying, and remove the copy."""
    agent = await _agent(notes, run)
    await agent.delete_volume_capture(notes.volume_id, notes.backup_id, operation=run.operation)


async def store_data(notes: CreateBackup, run: Run[Volume]) -> Together:
    """Store the copy, or what of it is not stored yet."""
    agent = await _agent(notes, run)
    of, parent_id = (notes.volume_id, notes.backup_id), notes.parent_id
    manifest = await carrying.store_capture(run, agent, *of, parent_id)
    return Together(lambda tx: _count(tx, notes, manifest))


def own(tx: Session, notes: CreateBackup, saga_id: str) -> None:
    """Say which operation has backup and snapshot now."""
    backup_rows.give(tx, notes.backup_id, saga_id)
    mine = update(SnapshotRow).where(
        SnapshotRow.id == notes.snapshot_id, SnapshotRow.status == BACKING_UP
    )
    tx.execute(mine.values(saga_id=saga_id))


def release(tx: Session, notes: CreateBackup, run: Run[Volume]) -> None:
    """Let go of what was backed up."""
    _show(tx, notes, run, BACKING_UP, "available")


def begin_storing(tx: Session, notes: CreateBackup, run: Run[Volume]) -> None:
    """Go on with what was copied."""
    own(tx, notes, run.saga_id)


async def end_storing(notes: CreateBackup, run: Run[Volume]) -> Together:
    """Have the host remove the copy, and say why there is no backup."""
    await remove_capture(notes, run)
    return Together(lambda tx: show_failure(tx, notes, run))


async def remove_data(notes: CreateBackup, run: Run[Volume]) -> None:
    """See that nothing is stored."""
    await run.service.backups.delete(notes.backup_id)


async def drop_capture(notes: CreateBackup, run: Run[Volume]) -> None:
    """Remove the copy; one that the host keeps for good is deleted with the volume."""
    try:
        await remove_capture(notes, run)
    except Unavailable:
        raise
    except MooringError:
        if run.attempt < BACKUP_UNDO_ATTEMPTS:
            raise


def show_left(tx: Session, notes: CreateBackup, run: Run[Volume]) -> None:
    """Say that what was stored may be left; what was to be backed up can be used again."""
    why = "It was given up." if run.error is None else run.error.public
    _fail(tx, notes, run, f"{why} Some of it may be left in the store; deleting this removes it.")


def show_available(tx: Session, notes: CreateBackup, run: Run[Volume]) -> None:
    """Say that there is a backup; what was backed up can be used again."""
    release(tx, notes, run)
    backup_rows.end(tx, notes.backup_id, run.saga_id, run.now(), status="available")


def give_up(tx: Session, notes: CreateBackup, run: Run[Volume]) -> None:
    """Say that nothing comes of a backup whose volume another operation took; delete it.

    One that was shown is whole: of it the host's copy alone is left to remove.
    """
    if run.visible:
        return
    if notes.snapshot_id:
        release(tx, notes, run)
    why = f"Another operation took volume {notes.volume_id} before it was backed up. Delete this."
    say_why(tx, notes, run, why)


async def give_up_data(notes: CreateBackup, run: Run[Volume]) -> None:
    """Remove what was stored, unless all of it was, and the backup was shown."""
    # Its status says nothing: one that is there may be restored just now.
    if not run.visible:
        await remove_data(notes, run)


async def give_up_capture(notes: CreateBackup, run: Run[Volume]) -> None:
    """Remove the copy, and see that none is made late."""
    agent, operation = await _agent(notes, run), run.operation.of_step(CAPTURE)
    await agent.delete_volume_capture(notes.volume_id, notes.backup_id, operation=operation)


def say_why(tx: Session, notes: CreateBackup, run: Run[Volume], why: str) -> None:
    """Say why there is no backup."""
    values = {"status": "error", "fail_reason": why}
    backup_rows.end(tx, notes.backup_id, run.saga_id, run.now(), **values)


def _fail(tx: Session, notes: CreateBackup, run: Run[Volume], why: str) -> None:
    release(tx, notes, run)
    say_why(tx, notes, run, why)


def _show(tx: Session, notes: CreateBackup, run: Run[Volume], before: str, status: str) -> None:
    if not notes.snapshot_id:
        allowed, now = (before,), run.now()
        statuses.change(tx, notes.volume_id, allowed=allowed, now=now, status=status)
        return
    owner = run.saga_id if status == BACKING_UP else ""
    shown = update(SnapshotRow).where(
        SnapshotRow.id == notes.snapshot_id, SnapshotRow.status == before
    )
    values = {"status": status, "saga_id": owner, "updated_at": run.now()}
    changed = tx.execute(shown.values(values).returning(SnapshotRow.id)).first()
    if changed is not None and status != BACKING_UP and notes.is_temporary:
        row = tx.get_one(SnapshotRow, notes.snapshot_id, populate_existing=True)
        deleting.owe(run.service, row)
        deleting.begin(tx, run.service, row, without_token(run))


def without_token(run: Run[Volume]) -> Who | None:
    """Return who asked, for what needs no token of theirs: it is not kept then."""
    return replace(run.user, token="") if run.user else None


def _count(tx: Session, notes: CreateBackup, manifest: Manifest) -> None:
    count = len(manifest.stored)
    tx.execute(update(BackupRow).where(BackupRow.id == notes.backup_id).values(object_count=count))


async def _agent(notes: CreateBackup, run: Run[Volume]) -> AgentClient:
    return await backends.agent_of(run, backends.split(notes.backend)[0])
