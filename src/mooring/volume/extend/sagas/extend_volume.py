"""Extend a volume: reserve, see that there is room, let storage grow it, or the guest's hypervisor.

Spec 000, facts/block_storage.md 3.1 to 3.4. Once storage was asked there is no way back. When QEMU
holds the file, compute is told the new size and answers by a completion; the saga rests until then
or until its deadline, and then goes by what the file tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring import limits
from mooring.clients.compute import ExternalEvent
from mooring.errors import Conflict, MooringError, NoCapacity, Unavailable
from mooring.saga.define import Park, Run, Saga, Step, Together, exclusive
from mooring.saga.journal import is_unavailable
from mooring.volume.backends import backends
from mooring.volume.extend import growing
from mooring.volume.quotas import quota
from mooring.volume.tables import ReservationRow, VolumeRow
from mooring.volume.volumes import messages, notices, statuses

if TYPE_CHECKING:
    from mooring.fence.operation import Operation
    from mooring.volume.service import Volume

log = structlog.get_logger()
_EVENT = "volume-extended"
_FINISHED_VERSION = "2.51"
_LOOK_S = 60.0


class ExtendVolume(Struct, frozen=True, kw_only=True):
    """The notes. `old_gib` and `new_gib` are sizes in GiB; `backend` is where the volume lies."""

    volume_id: str
    old_gib: int
    new_gib: int
    backend: str
    attached: bool = False
    """Whether it was in-use before."""
    by_compute: bool = False
    """Whether storage said that only the guest's hypervisor can grow the file."""
    server_ids: list[str] = []
    """Whom the event is for."""
    overdue: bool = False
    """Whether compute did not answer in time."""
    file_bytes: int | None = None
    """In a bad end: how big the file was found; None when nobody could tell."""
    settled: bool = False
    """Whether row, reservation and file say the same again."""

    @property
    def host(self) -> str:
        """The host whose agent has the volume."""
        return backends.split(self.backend)[0]

    @property
    def new_bytes(self) -> int:
        """The size to reach, in bytes."""
        return self.new_gib * growing.GIB


async def check_capacity(notes: ExtendVolume, run: Run[Volume]) -> None:
    """See that the pool works and has room; the request was answered already."""
    delta, settings = notes.new_gib - notes.old_gib, run.service.settings
    await run.service.store.read(
        lambda tx: backends.check_growth(tx, notes.backend, delta, settings, run.now())
    )


def give_back(tx: Session, notes: ExtendVolume, run: Run[Volume]) -> None:
    """Give the volume its former status and the project its quota back, and say why."""
    now = run.now()
    quota.settle(tx, notes.volume_id)
    row = tx.get(VolumeRow, notes.volume_id)
    if row is None or row.status != "extending":
        return
    statuses.change(
        tx, row.id, allowed=("extending",), now=now, status="available", **growing.SETTLED
    )
    if notes.attached:
        statuses.recompute(tx, row.id, now, settle=True)
    detail: messages.Detail = "no_backend" if isinstance(run.error, NoCapacity) else "unknown"
    messages.add(tx, row, ("extend", detail), request_id=run.request_id, now=now)
    if run.error is not None and detail == "no_backend":
        reason = run.error.public
        notices.send_scheduling_failure(tx, run.service, row.id, reason, method="extend_volume")


def begin_extending(tx: Session, notes: ExtendVolume, run: Run[Volume]) -> None:
    """Tell that storage is asked now."""
    notices.send(tx, run.service, notes.volume_id, "resize.start")


async def ask_storage(notes: ExtendVolume, run: Run[Volume]) -> ExtendVolume:
    """Grow the file, or learn that QEMU holds it."""
    _require_time(run, "The storage")
    agent = await backends.agent_of(run, notes.host)
    grown = await agent.extend_volume(notes.volume_id, notes.new_gib, operation=run.operation)
    return replace(notes, by_compute=grown.needs_compute)


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
    mine = select(ReservationRow.id).where(ReservationRow.saga_id == run.saga_id)
    statuses.change(
        tx,
        notes.volume_id,
        allowed=("extending",),
        now=run.now(),
        extend_new_size=notes.new_gib,
        extend_reservations=list(tx.execute(mine).scalars()),
        extend_answer=None,
        extend_event=f"{run.saga_id}.{send_event.__name__}",
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
    if left_s > 0:
        # Twice the deadline: it ends by our own look at the time, which goes on to the file.
        signal, most_s = growing.signal_of(notes.volume_id), 2 * _LOOK_S + run.worked_s + left_s
        raise Park(signal=signal, seconds=min(_LOOK_S, left_s), timeout_s=most_s)
    return replace(notes, overdue=True)


def refuse_answers(tx: Session, notes: ExtendVolume, run: Run[Volume]) -> None:
    """From here on a completion comes too late: we go by the file."""
    if notes.overdue:
        _refuse_answers(tx, notes, run)


async def confirm_size(notes: ExtendVolume, run: Run[Volume]) -> None:
    """See that the file has grown: what compute says is only a hint."""
    if not notes.by_compute:
        return
    _require_time(run, "The storage, or compute that was told to give up,")
    if notes.overdue:
        await growing.stop_compute(run, _event_of(run))
    found = await growing.find_bytes(run, notes.host, notes.volume_id, _asked_of(run))
    if found < notes.new_bytes:
        why = "compute did not answer in time" if notes.overdue else "compute says that it had"
        raise Conflict(f"The file of volume {notes.volume_id} has not grown, and {why}.")


def finish(tx: Session, notes: ExtendVolume, run: Run[Volume]) -> ExtendVolume:
    """Give the volume its new size and its status; the reservation is used up."""
    _commit(tx, notes, run)
    servers = [] if notes.by_compute else growing.servers_of(tx, notes.volume_id)
    return replace(notes, server_ids=servers, settled=True)


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
    return Together(lambda tx: _note(tx, notes, run, "notify"))


def claim_answer(tx: Session, notes: ExtendVolume, run: Run[Volume]) -> None:
    """In a bad end: let no completion come any more."""
    if notes.settled and notes.server_ids:
        _note(tx, notes, run, "notify")
    elif not notes.settled:
        _refuse_answers(tx, notes, run)


async def stop_compute(notes: ExtendVolume, run: Run[Volume]) -> None:
    """See that compute does not touch the file any more, for as long as it takes."""
    if notes.by_compute and not notes.settled:
        await growing.stop_compute(run, _event_of(run))


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
        _commit(tx, notes, run)
        if run.error is None or run.error.kind != "unavailable":
            _note(tx, notes, run, "notify")
        return replace(notes, settled=True)
    if statuses.change(
        tx, notes.volume_id, allowed=("extending",), now=now, status="error_extending"
    ):
        log.error("volume did not grow", volume=notes.volume_id, error=str(run.error))
        _note(tx, notes, run, "extend")
    if found is None:
        return None
    quota.settle(tx, notes.volume_id)
    statuses.change(tx, notes.volume_id, allowed=None, now=now, **growing.SETTLED)
    growing.adopt(tx, notes.volume_id, found, now)
    if notes.attached and not growing.servers_of(tx, notes.volume_id):
        growing.let_rest(tx, notes.volume_id, now)
    return replace(notes, settled=True)


async def look_again(notes: ExtendVolume, run: Run[Volume]) -> ExtendVolume | None:
    """Ask storage how big the file is now, for as long as it takes."""
    if notes.settled:
        return None
    found = await growing.find_bytes(run, notes.host, notes.volume_id, _asked_of(run))
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


def _commit(tx: Session, notes: ExtendVolume, run: Run[Volume]) -> None:
    if growing.commit(tx, notes.volume_id, notes.new_gib, run.now()):
        notices.send(tx, run.service, notes.volume_id, "resize.end")


async def _tell(notes: ExtendVolume, run: Run[Volume], version: str) -> str:
    """Send the event for each server; return what compute refuses, empty when it takes them all."""
    events = [ExternalEvent(one, _EVENT, tag=notes.volume_id) for one in notes.server_ids]
    answers = await run.service.compute.send_events(
        None, events, version=version, operation=run.operation
    )
    codes = {one.server_uuid: one.code for one in answers if one.tag in ("", notes.volume_id)}
    refused = {one: codes.get(one, 0) for one in notes.server_ids if codes.get(one) != 200}
    return ", ".join(f"server {one}: code {code}" for one, code in refused.items())


def _require_time(run: Run[Volume], who: str) -> None:
    deadline_s = run.service.settings.extend_deadline_s
    if run.worked_s > deadline_s:
        raise Unavailable(f"{who} did not answer within {deadline_s:g} s.", final=True)


def _refuse_answers(tx: Session, notes: ExtendVolume, run: Run[Volume]) -> None:
    waiting = ("extending",)
    statuses.change(tx, notes.volume_id, allowed=waiting, now=run.now(), **growing.NO_KEYS)


def _answer(tx: Session, volume_id: str) -> str | None:
    query = select(VolumeRow.extend_answer).where(VolumeRow.id == volume_id)
    return tx.execute(query).scalar()


def _note(tx: Session, notes: ExtendVolume, run: Run[Volume], detail: messages.Detail) -> None:
    row = tx.get(VolumeRow, notes.volume_id)
    if row is not None:
        what: tuple[messages.Action, messages.Detail] = ("extend", detail)
        messages.add(tx, row, what, request_id=run.request_id, now=run.now())


def _event_of(run: Run[Volume]) -> str:
    return f"{run.saga_id}.{send_event.__name__}"


def _asked_of(run: Run[Volume]) -> Operation:
    return replace(run.operation, step=ask_storage.__name__)


EXTEND_VOLUME = Saga(
    "volume.extend_volume",
    ExtendVolume,
    Step("check_capacity", check_capacity, undo=give_back),
    Step("begin_extending", begin_extending),
    Step("ask_storage", ask_storage, deadline_s=900.0),
    Step("hand_over", hand_over),
    Step("send_event", send_event),
    Step("await_completion", await_completion),
    Step("refuse_answers", refuse_answers),
    Step("confirm_size", confirm_size),
    Step("finish", finish),
    Step("tell_servers", tell_servers),
    locks=lambda notes: (exclusive(f"volume:{notes.volume_id}"),),
    visible_after="finish",
    pivot="ask_storage",
    failed_end=[
        Step("claim_answer", claim_answer),
        Step("stop_compute", stop_compute, may_be_forgone=True),
        Step("look_at_file", look_at_file),
        Step("show_outcome", show_outcome),
        Step("look_again", look_again, may_be_forgone=True),
        Step("show_again", show_again),
    ],
    residue=("volumes", "messages"),
)
