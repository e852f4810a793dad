"""The bad end of an extend: storage was asked, so there is no way back, and the file decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from mooring import limits
from mooring.errors import MooringError
from mooring.volume.extend import growing
from mooring.volume.extend.sagas import by_compute
from mooring.volume.quotas import quota
from mooring.volume.volumes import messages, statuses

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.fence.operation import Operation
    from mooring.saga.define import Run
    from mooring.volume.extend.sagas.extend_notes import ExtendVolume
    from mooring.volume.service import Volume

log = structlog.get_logger()
ASK_STORAGE = "ask_storage"
"""The step under whose operation storage is asked."""


def claim_answer(tx: Session, notes: ExtendVolume, run: Run[Volume]) -> None:
    """In a bad end: let no completion come any more."""
    if notes.settled and notes.server_ids:
        messages.note(tx, run, notes.volume_id, ("extend", "notify"))
    elif not notes.settled:
        by_compute.close(tx, notes, run)


async def stop_compute(notes: ExtendVolume, run: Run[Volume]) -> None:
    """See that compute does not touch the file any more, for as long as it takes."""
    if notes.by_compute and not notes.settled:
        await growing.stop_compute(run, by_compute.event_of(run))


async def look_at_file(notes: ExtendVolume, run: Run[Volume]) -> ExtendVolume | None:
    """Ask storage how big the file is now, a few times."""
    if notes.settled:
        return None
    try:
        return await look_again(notes, run)
    except MooringError:
        if run.attempt >= limits.VOLUME_LOOK_ATTEMPTS:
            return None
        raise


def show_outcome(tx: Session, notes: ExtendVolume, run: Run[Volume]) -> ExtendVolume | None:
    """Show how it ended, by the file: one that has grown is grown, whoever says otherwise.

    One that has not is `error_extending`, unless its server has left meanwhile: then nothing has
    happened to it. As long as nobody knows the file, what is reserved stays so.
    """
    if notes.settled:
        return None
    now, found = run.now(), notes.file_bytes
    if found is not None and found >= notes.new_bytes:
        growing.commit(tx, run, notes.volume_id, notes.new_gib)
        if run.error is None or run.error.kind != "unavailable":
            messages.note(tx, run, notes.volume_id, ("extend", "notify"))
        return replace(notes, settled=True)
    if statuses.change(
        tx, notes.volume_id, allowed=("extending",), now=now, status="error_extending"
    ):
        log.error("volume did not grow", volume=notes.volume_id, error=str(run.error))
        messages.note(tx, run, notes.volume_id, ("extend", "extend"))
    if found is None:
        return None
    quota.settle(tx, notes.volume_id)
    statuses.change(tx, notes.volume_id, allowed=None, now=now, **growing.SETTLED)
    growing.adopt(tx, notes.volume_id, found, now)
    if notes.from_error and found < notes.old_gib * growing.GIB:
        # No file, or one that nobody can read: it stays what it was.
        statuses.change(tx, notes.volume_id, allowed=("error_extending",), now=now, status="error")
    if notes.attached and not growing.servers_of(tx, notes.volume_id):
        growing.let_rest(tx, notes.volume_id, now)
    return replace(notes, settled=True)


async def look_again(notes: ExtendVolume, run: Run[Volume]) -> ExtendVolume | None:
    """Ask storage how big the file is now, for as long as it takes."""
    if notes.settled:
        return None
    found = await growing.find_bytes(run, notes.host, notes.volume_id, asked_of(run))
    return replace(notes, file_bytes=found)


def show_again(tx: Session, notes: ExtendVolume, run: Run[Volume]) -> ExtendVolume | None:
    """Show how big the file was found; the volume keeps its size when an operator forwent that.

    Its host is gone for good then. Should it come back after all, resetting the status looks again.
    """
    if notes.settled or notes.file_bytes is not None:
        return show_outcome(tx, notes, run)
    quota.settle(tx, notes.volume_id)
    statuses.change(tx, notes.volume_id, allowed=None, now=run.now(), **growing.SETTLED)
    return replace(notes, settled=True)


def asked_of(run: Run[Volume]) -> Operation:
    """Return the operation under which storage was asked."""
    return run.operation.of_step(ASK_STORAGE)
