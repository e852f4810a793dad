"""Set a volume's status by hand, ending whatever is at work on it (`os-reset_status`)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.errors import MooringError, Unavailable
from mooring.saga.define import Each, Run, Saga, Step, Together, exclusive
from mooring.volume.attachments import connections
from mooring.volume.backends import backends
from mooring.volume.extend import growing
from mooring.volume.migration import copies, copy_rows, resetting
from mooring.volume.tables import VolumeRow
from mooring.volume.volumes import absorbed, filling, notices, statuses
from mooring.volume.volumes.sagas.reset_notes import ResetStatus, wanted

if TYPE_CHECKING:
    from mooring.volume.service import Volume


def write_status(tx: Session, notes: ResetStatus, run: Run[Volume]) -> ResetStatus | None:
    """Write what was asked for; detached deletes every attachment, and the status follows."""
    row = tx.get(VolumeRow, notes.volume_id)
    if row is None:
        return None
    now, status = run.now(), row.status
    _notify(tx, notes, run, "start")
    absorbed.forget_connecting(tx, notes.volume_id)
    absorbed.end_snapshots(tx, notes.volume_id, now)
    left = growing.forget(tx, row, now)
    was_moving, copy = copies.find(row), copy_rows.find(tx, row)
    event = (copy.extend_event if copy else None) or ""
    arriving = copies.end(tx, row, now)
    statuses.change(tx, notes.volume_id, allowed=None, now=now, **wanted(notes, now))
    if notes.attach_status == "detached":
        notes = replace(notes, exports=connections.forget_all(tx, row.id, notes.exports))
        statuses.recompute(tx, notes.volume_id, now, settle=row.launched_at is not None)
    elif not notes.status:
        absorbed.give_rest(tx, notes.volume_id, status, now, was_moving=was_moving is not None)
    _notify(tx, notes, run, "end")
    if arriving is not None:
        # Whatever was asked for, it is not there yet.
        statuses.change(tx, row.id, allowed=None, now=now, migration_status="completing")
    return replace(
        notes,
        backend=row.backend or "",
        event=left.event,
        unsure=left.unsure,
        copies=status in filling.REPLACING and row.launched_at is not None,
        was_deleting=status == "deleting",
        arriving=arriving,
        swapping=was_moving if copy is not None else None,
        swap_event=event,
    )


def _notify(tx: Session, notes: ResetStatus, run: Run[Volume], phase: str) -> None:
    """Tell what is asked for, or done: all of it happens in this one transaction."""
    asked = ("status", "attach_status", "migration_status")
    update = {name: value for name in asked if (value := getattr(notes, name))}
    notices.send(tx, run.service, notes.volume_id, f"reset_status.{phase}", update=update)


async def stop_compute(notes: ResetStatus, volume_id: str, run: Run[Volume]) -> None:
    """See that compute does not let the volume grow any more."""
    del volume_id
    await growing.stop_compute(run, notes.event)


async def settle_size(notes: ResetStatus, volume_id: str, run: Run[Volume]) -> Together | None:
    """Let the size follow the file of a volume that was growing."""
    if not notes.backend:
        return None
    host = backends.split(notes.backend)[0]
    found = await growing.find_bytes(run, host, volume_id, run.operation)
    return Together(lambda tx: growing.adopt(tx, volume_id, found, run.now()))


async def end_copy(notes: ResetStatus, run: Run[Volume]) -> None:
    """End the copy that was to replace the content: somebody may have the volume from now on."""
    if notes.copies and notes.backend:
        agent = await backends.agent_of(run, backends.split(notes.backend)[0])
        await agent.forget_content(notes.volume_id, operation=run.operation)


async def give_up_copy(notes: ResetStatus, run: Run[Volume]) -> None:
    """End it also when another operation has taken the volume."""
    await end_copy(notes, run)


async def settle_swap(notes: ResetStatus, run: Run[Volume]) -> Together | None:
    """See which of the two a guest has under which the volume was migrated."""
    if (move := notes.swapping) is None:
        return None
    settled = await resetting.settle(run, notes.volume_id, move, notes.swap_event)
    if settled is not None:
        return settled
    shown = "" if notes.status and not notes.attach_status else "retyping"
    rest = partial(copy_rows.let_rest, volume_id=notes.volume_id, shown=shown, now=run.now())
    return Together(rest if shown else _leave, replace(notes, arriving=move))


def _leave(tx: Session) -> None:
    """Leave the rows: the status is what was asked for."""
    del tx


async def find_storage(notes: ResetStatus, run: Run[Volume]) -> Together | None:
    """Go on with a migration behind its switch: nobody may have the volume before.

    See whether a deletion that was given up has left anything; one that has not is to finish.

    Claimed first, so that no call of the deletion comes late. Where no data are there any more,
    nobody may take the volume for one that can be used.
    """
    if not notes.backend:
        return None
    if notes.arriving is not None:
        shown, deleting = notes.migration_status, notes.was_deleting
        return await copies.arrive(
            run, notes.volume_id, notes.arriving, shown=shown, was_deleting=deleting
        )
    if not notes.was_deleting:
        return None
    agent = await backends.agent_of(run, backends.split(notes.backend)[0])
    await agent.claim_volume(notes.volume_id, operation=run.operation)
    if await agent.show_volume(notes.volume_id) is not None:
        return None

    def show(tx: Session) -> None:
        values = {"status": "error_deleting", **statuses.RETURNED}
        statuses.change(tx, notes.volume_id, allowed=None, now=run.now(), **values)

    return Together(show)


async def end_export(notes: ResetStatus, export_id: str, run: Run[Volume]) -> None:
    """End the export of an attachment that is gone; what the storage refuses, doctor finds."""
    if not notes.backend:
        return
    agent = await backends.agent_of(run, backends.split(notes.backend)[0])
    try:
        await agent.unexport_volume(notes.volume_id, export_id, operation=run.operation)
    except Unavailable:
        raise
    except MooringError:
        return


async def end_exports(notes: ResetStatus, run: Run[Volume]) -> None:
    """End all exports of attachments that are gone: no row names them for whoever comes next."""
    for export_id in notes.exports:
        await end_export(notes, export_id, run)


# It may have absorbed whoever was at work, so it owns the volume from its first step on.
RESET_STATUS = Saga(
    "volume.reset_status",
    ResetStatus,
    Step("write_status", write_status),
    Each(
        "growing",
        lambda notes: [notes.volume_id] if notes.unsure else [],
        Step("stop_compute", stop_compute, may_be_forgone=True),
        Step("settle_size", settle_size, may_be_forgone=True),
    ),
    Step("end_copy", end_copy, may_be_forgone=True),
    Step("settle_swap", settle_swap, may_be_forgone=True),
    Step("find_storage", find_storage, may_be_forgone=True),
    Each(
        "exports", lambda notes: notes.exports, Step("end_export", end_export, may_be_forgone=True)
    ),
    locks=lambda notes: (exclusive(f"volume:{notes.volume_id}"),),
    mode="preempt",
    answered_after="write_status",
    visible_after="write_status",
    pivot="write_status",
    owes=(
        Step("give_up_copy", give_up_copy, may_be_forgone=True, until_taken=True),
        Step("end_exports", end_exports, may_be_forgone=True),
    ),
)
