"""What compute does for an extend: it lets the guest's hypervisor grow a file that QEMU holds.

It is told by an event and answers by a completion (spec 000, facts/block_storage.md 3.3 and 3.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace
from sqlalchemy import bindparam, select

from mooring import limits
from mooring.clients.compute import ExternalEvent
from mooring.errors import Conflict, MooringError, Unavailable
from mooring.saga.define import Park, Together
from mooring.saga.journal import is_unavailable
from mooring.store.prepared import Prepared
from mooring.volume.extend import growing
from mooring.volume.tables import ReservationRow, VolumeRow
from mooring.volume.volumes import messages, statuses

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.saga.define import Run
    from mooring.volume.extend.sagas.extend_notes import ExtendVolume
    from mooring.volume.service import Volume

log = structlog.get_logger()


def _as_it_is(answer: str | None) -> str | None:
    return answer


_answer_of = Prepared(
    select(VolumeRow.extend_answer).where(VolumeRow.id == bindparam("of_volume")),
    _as_it_is,
)
_reserved_by = Prepared(
    select(ReservationRow.id).where(ReservationRow.saga_id == bindparam("of_saga")), str
)
SEND_EVENT = "send_event"
"""The step under whose operation compute is told."""
_EVENT = "volume-extended"
_FINISHED_VERSION = "2.51"
_LOOK_S = 60.0
_TICK_S = 0.001
"""What is shorter than this passes at once: a sum of pauses is only nearly a deadline."""


def hand_over(tx: Session, notes: ExtendVolume, run: Run[Volume]) -> ExtendVolume | None:
    """Let exactly one server's hypervisor do it: write down what it is to reach."""
    if not notes.by_compute:
        return None
    servers = growing.servers_of(tx, notes.volume_id)
    if len(servers) != 1:
        raise Conflict(
            f"Volume {notes.volume_id} is open in QEMU and attached to {len(servers)} servers; "
            "only while exactly one has it can it grow. Detach it, and extend it then.",
        )
    if not run.service.settings.extend_completion_version:
        raise Conflict(
            f"Volume {notes.volume_id} is open in QEMU, and this cloud's compute service cannot "
            "let it grow there. Detach it, and extend it then.",
        )
    statuses.change(
        tx,
        notes.volume_id,
        allowed=("extending",),
        now=run.now(),
        extend_new_size=notes.new_gib,
        extend_reservations=_reserved_by.all(tx, of_saga=run.saga_id),
        extend_answer=None,
        extend_event=event_of(run),
    )
    return replace(notes, server_ids=servers)


async def send_event(notes: ExtendVolume, run: Run[Volume]) -> None:
    """Tell compute, in the version that answers by a completion. Raises for any other answer."""
    if not notes.by_compute:
        return
    if run.attempt > limits.VOLUME_EVENT_ATTEMPTS:
        raise Unavailable(
            f"The compute service could not be told that volume {notes.volume_id} is to grow.",
            final=True,
        )
    version = run.service.settings.extend_completion_version
    refused = await _tell(notes, run, version)
    if refused:
        raise Conflict(
            f"The compute service refused to let volume {notes.volume_id} grow: {refused}."
        )


async def await_completion(notes: ExtendVolume, run: Run[Volume]) -> ExtendVolume | None:
    """Rest until compute has completed, or the time is up."""
    if not notes.by_compute:
        return None
    answer = await run.service.store.read(lambda tx: _answer(tx, notes.volume_id))
    if answer == growing.FAILED:
        raise Conflict(f"The compute service could not let volume {notes.volume_id} grow.")
    if answer == growing.DONE:
        return None
    left_s = run.service.settings.extend_deadline_s - run.worked_s
    if left_s > _TICK_S:
        # Twice the deadline: it ends by our own look at the time, which goes on to the file.
        signal, most_s = growing.signal_of(notes.volume_id), 2 * _LOOK_S + run.worked_s + left_s
        raise Park(signal=signal, seconds=min(_LOOK_S, left_s), timeout_s=most_s)
    return replace(notes, overdue=True)


def refuse_answers(tx: Session, notes: ExtendVolume, run: Run[Volume]) -> None:
    """From here on a completion comes too late: we go by the file."""
    if notes.overdue:
        close(tx, notes, run)


async def tell_servers(notes: ExtendVolume, run: Run[Volume]) -> Together | None:
    """Let the guests know of a size that storage has reached already; a failure is a message."""
    if not notes.server_ids:
        return None
    try:
        refused = await _tell(notes, run, _FINISHED_VERSION)
    except MooringError as error:
        if is_unavailable(error) and run.attempt < limits.VOLUME_EVENT_ATTEMPTS:
            raise
        refused = str(error)
    if not refused:
        return None
    log.warning("guests do not know their volume's size", volume=notes.volume_id, error=refused)
    return Together(lambda tx: messages.note(tx, run, notes.volume_id, ("extend", "notify")))


def close(tx: Session, notes: ExtendVolume, run: Run[Volume]) -> None:
    """Let no completion come any more."""
    waiting = ("extending",)
    statuses.change(tx, notes.volume_id, allowed=waiting, now=run.now(), **growing.NO_KEYS)


def event_of(run: Run[Volume]) -> str:
    """Return the operation under which compute is told."""
    return f"{run.saga_id}.{SEND_EVENT}"


async def _tell(notes: ExtendVolume, run: Run[Volume], version: str) -> str:
    """Send the event for each server; return what compute refuses, empty when it takes them all."""
    events = [ExternalEvent(one, _EVENT, tag=notes.volume_id) for one in notes.server_ids]
    answers = await run.service.compute.send_events(
        None, events, version=version, operation=run.operation
    )
    codes = {one.server_uuid: one.code for one in answers if one.tag in ("", notes.volume_id)}
    refused = {one: codes.get(one, 0) for one in notes.server_ids if codes.get(one) != 200}
    return ", ".join(f"server {one}: code {code}" for one, code in refused.items())


def _answer(tx: Session, volume_id: str) -> str | None:
    return _answer_of.first(tx, of_volume=volume_id)
