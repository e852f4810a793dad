"""Back up a volume that nobody has, or a snapshot (facts/block_storage.md 1.8).

The volume's host copies it beside its storage, as for an image; the control plane stores the copy
piece by piece, and the host removes it. A backup that failed is in `error`, without data; where the
store cannot be reached it may have some, and the volume is not kept waiting for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import update
from sqlalchemy.orm import Session

from mooring.agent_api.client import AgentClient
from mooring.errors import MooringError, Unavailable
from mooring.saga.define import Lock, Run, Saga, Step, Together, exclusive, shared
from mooring.volume.backends import backends
from mooring.volume.backups import backup_rows, carrying
from mooring.volume.backups.limits import BACKUP_UNDO_ATTEMPTS
from mooring.volume.backups.story import tell
from mooring.volume.tables import BackupRow, SnapshotRow
from mooring.volume.volumes import filling, statuses

if TYPE_CHECKING:
    from mooring.volume.backups.stores.base import Manifest
    from mooring.volume.service import Volume

BACKING_UP = "backing-up"
_CAPTURE = "capture_volume"


class CreateBackup(Struct, frozen=True, kw_only=True):
    """The notes. With a `snapshot_id` that is what is backed up, and what is shown to be."""

    backup_id: str
    volume_id: str
    backend: str
    snapshot_id: str = ""


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
    manifest = await carrying.store_capture(run, agent, notes.volume_id, notes.backup_id)
    return Together(lambda tx: _count(tx, notes, manifest))


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
        return


def show_left(tx: Session, notes: CreateBackup, run: Run[Volume]) -> None:
    """Say that what was stored may be left; what was to be backed up can be used again."""
    why = "It was given up." if run.error is None else run.error.public
    _fail(tx, notes, run, f"{why} Some of it may be left in the store; deleting this removes it.")


def show_available(tx: Session, notes: CreateBackup, run: Run[Volume]) -> None:
    """Say that there is a backup; what was backed up can be used again."""
    _show(tx, notes, run, BACKING_UP, "available")
    backup_rows.end(tx, notes.backup_id, run.saga_id, run.now(), status="available")


def give_up(tx: Session, notes: CreateBackup, run: Run[Volume]) -> None:
    """Say that nothing comes of a backup whose volume another operation took; delete it."""
    if notes.snapshot_id:
        _show(tx, notes, run, BACKING_UP, "available")
    why = f"Another operation took volume {notes.volume_id} before it was backed up. Delete this."
    values = {"status": "error", "fail_reason": why}
    backup_rows.end(tx, notes.backup_id, run.saga_id, run.now(), **values)


async def give_up_data(notes: CreateBackup, run: Run[Volume]) -> None:
    """Remove what was stored, unless all of it was, and the backup is there."""
    row = await run.service.store.read(lambda tx: tx.get(BackupRow, notes.backup_id))
    if row is None or row.status != "available":
        await remove_data(notes, run)


async def give_up_capture(notes: CreateBackup, run: Run[Volume]) -> None:
    """Remove the copy, and see that none is made late."""
    agent, operation = await _agent(notes, run), run.operation.of_step(_CAPTURE)
    await agent.delete_volume_capture(notes.volume_id, notes.backup_id, operation=operation)


def _fail(tx: Session, notes: CreateBackup, run: Run[Volume], why: str) -> None:
    _show(tx, notes, run, BACKING_UP, "available")
    values = {"status": "error", "fail_reason": why}
    backup_rows.end(tx, notes.backup_id, run.saga_id, run.now(), **values)


def _show(tx: Session, notes: CreateBackup, run: Run[Volume], before: str, status: str) -> None:
    if not notes.snapshot_id:
        allowed, now = (before,), run.now()
        statuses.change(tx, notes.volume_id, allowed=allowed, now=now, status=status)
        return
    owner = run.saga_id if status == BACKING_UP else ""
    shown = update(SnapshotRow).where(
        SnapshotRow.id == notes.snapshot_id, SnapshotRow.status == before
    )
    tx.execute(shown.values(status=status, saga_id=owner, updated_at=run.now()))


def _count(tx: Session, notes: CreateBackup, manifest: Manifest) -> None:
    count = len(manifest.stored)
    tx.execute(update(BackupRow).where(BackupRow.id == notes.backup_id).values(object_count=count))


async def _agent(notes: CreateBackup, run: Run[Volume]) -> AgentClient:
    return await backends.agent_of(run, backends.split(notes.backend)[0])


def _locks(notes: CreateBackup) -> Sequence[Lock]:
    key = f"volume:{notes.volume_id}"
    # The files of the snapshot stay as they are while they are read.
    of_volume = shared(key) if notes.snapshot_id else exclusive(key)
    return of_volume, exclusive(f"backup:{notes.backup_id}")


CREATE_BACKUP = Saga(
    "volume.create_backup",
    CreateBackup,
    Step("begin_backup", begin_backup, undo=show_failure),
    Step(_CAPTURE, capture_volume, undo=remove_capture, deadline_s=7500.0),
    Step(
        "store_data",
        store_data,
        undo=remove_data,
        deadline_s=7500.0,
        undo_attempts=BACKUP_UNDO_ATTEMPTS,
    ),
    Step("show_available", show_available),
    Step("remove_capture", remove_capture, may_be_forgone=True),
    locks=_locks,
    visible_after="show_available",
    pivot="show_available",
    undo_ends=(
        Step("drop_capture", drop_capture, may_be_forgone=True),
        Step("show_left", show_left),
    ),
    owes=(
        Step("give_up_data", give_up_data, may_be_forgone=True),
        Step("give_up_capture", give_up_capture, may_be_forgone=True),
    ),
    # The backup itself goes over to those in `error`.
    residue=("backups", "error_backups", "messages"),
    story=tell("create", "create_backup", absorbed=give_up),
)
