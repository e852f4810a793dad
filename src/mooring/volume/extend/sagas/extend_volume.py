"""Extend a volume: reserve, see that there is room, let storage grow it, or the guest's hypervisor.

Spec 000, facts/block_storage.md 3.1 to 3.4. Once storage was asked there is no way back. When QEMU
holds the file, compute is told the new size and answers by a completion; the saga rests until then
or until its deadline, and then goes by what the file tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.errors import Conflict, NoCapacity, Unavailable
from mooring.saga.define import Former, Saga, Step, exclusive
from mooring.volume.backends import backends
from mooring.volume.extend import growing
from mooring.volume.extend.sagas import by_compute, extend_ends
from mooring.volume.extend.sagas.extend_notes import ExtendVolume
from mooring.volume.quotas import quota
from mooring.volume.tables import VolumeRow
from mooring.volume.volumes import statuses
from mooring.volume.volumes.story import Failure, tell

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.saga.define import Run
    from mooring.volume.service import Volume


async def check_capacity(notes: ExtendVolume, run: Run[Volume]) -> None:
    """See that the pool works and has room; the request was answered already."""
    delta, settings = notes.new_gib - notes.old_gib, run.service.settings
    await run.service.store.read(
        lambda tx: backends.check_growth(tx, notes.backend, delta, settings, run.now())
    )


def give_back(tx: Session, notes: ExtendVolume, run: Run[Volume]) -> None:
    """Give the volume its former status and the project its quota back."""
    now = run.now()
    quota.settle(tx, notes.volume_id)
    row = tx.get(VolumeRow, notes.volume_id)
    if row is None or row.status != "extending":
        return
    # Nobody has looked at the file of one that was in `error`.
    back = "error" if notes.from_error else "available"
    statuses.change(tx, row.id, allowed=("extending",), now=now, status=back, **growing.SETTLED)
    if notes.attached and not notes.from_error:
        statuses.recompute(tx, row.id, now, settle=True)


async def ask_storage(notes: ExtendVolume, run: Run[Volume]) -> ExtendVolume:
    """Grow the file, or learn that QEMU holds it.

    Of a file that several servers have no lock tells: their QEMUs take none. So it counts as held.
    """
    _require_time(run, "The storage")
    volume_id = notes.volume_id
    if len(await run.service.store.read(lambda tx: growing.servers_of(tx, volume_id))) > 1:
        return replace(notes, by_compute=True)
    agent = await backends.agent_of(run, notes.host)
    grown = await agent.extend_volume(notes.volume_id, notes.new_gib, operation=run.operation)
    return replace(notes, by_compute=grown.needs_compute)


async def confirm_size(notes: ExtendVolume, run: Run[Volume]) -> None:
    """See that the file has grown: what compute says is only a hint."""
    if not notes.by_compute:
        return
    _require_time(run, "The storage, or compute that was told to give up,")
    if notes.overdue:
        await growing.stop_compute(run, by_compute.event_of(run))
    found = await growing.find_bytes(run, notes.host, notes.volume_id, extend_ends.asked_of(run))
    if found < notes.new_bytes:
        why = "compute did not answer in time" if notes.overdue else "compute says that it had"
        raise Conflict(f"The file of volume {notes.volume_id} has not grown, and {why}.")


def finish(tx: Session, notes: ExtendVolume, run: Run[Volume]) -> ExtendVolume:
    """Give the volume its new size and its status; the reservation is used up."""
    growing.commit(tx, run, notes.volume_id, notes.new_gib)
    servers = [] if notes.by_compute else growing.servers_of(tx, notes.volume_id)
    return replace(notes, server_ids=servers, settled=True)


def _require_time(run: Run[Volume], who: str) -> None:
    deadline_s = run.service.settings.extend_deadline_s
    if run.worked_s > deadline_s:
        raise Unavailable(f"{who} did not answer within {deadline_s:g} s.", final=True)


def _explain(row: VolumeRow, notes: ExtendVolume, run: Run[Volume]) -> Failure | None:
    # A bad end has told what it knew as soon as it did; of what is deleted nobody wants to hear.
    if notes.settled or row.status == "deleting":
        return None
    if isinstance(run.error, NoCapacity):
        return Failure("extend", "no_backend", unplaced="extend_volume", why=run.error.public)
    return Failure("extend", "unknown")


EXTEND_VOLUME = Saga(
    "volume.extend_volume",
    ExtendVolume,
    Step("check_capacity", check_capacity, undo=give_back),
    Step(extend_ends.ASK_STORAGE, ask_storage, deadline_s=900.0),
    Step("hand_over", by_compute.hand_over),
    Step(by_compute.SEND_EVENT, by_compute.send_event),
    Step("await_completion", by_compute.await_completion),
    Step("refuse_answers", by_compute.refuse_answers),
    Step("confirm_size", confirm_size),
    Step("finish", finish),
    Step("tell_servers", by_compute.tell_servers),
    version=2,
    locks=lambda notes: (exclusive(f"volume:{notes.volume_id}"),),
    visible_after="finish",
    pivot=extend_ends.ASK_STORAGE,
    failed_end=[
        Step("claim_answer", extend_ends.claim_answer),
        Step("stop_compute", extend_ends.stop_compute, may_be_forgone=True),
        Step("look_at_file", extend_ends.look_at_file),
        Step("show_outcome", extend_ends.show_outcome),
        Step("look_again", extend_ends.look_again, may_be_forgone=True),
        Step("show_again", extend_ends.show_again),
    ],
    residue=("volumes", "messages"),
    story=tell(begun="resize.start", explain=_explain),
    former=Former(steps={"begin_extending": "check_capacity"}),
)
