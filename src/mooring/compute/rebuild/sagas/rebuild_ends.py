"""The bad ends of every rebuild of a server (facts/compute.md 4.13, 5.3).

One brings the server back, when what it boots from is as it was. Where that is refused for good,
the other puts it into ERROR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.agent_api.servers import PowerRequest
from mooring.compute.hosts import guests
from mooring.compute.rebuild.sagas import rebuild_steps as steps
from mooring.compute.servers import states
from mooring.compute.volumes import disk_places, disks, reservations
from mooring.errors import Conflict
from mooring.saga.define import Former, Run, Step, Together

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.rebuild.sagas.rebuild_notes import RebuildServer
    from mooring.compute.service import Compute


async def connect_again(notes: RebuildServer, run: Run[Compute]) -> Together | None:
    """Let the guest that is to come back have its volumes."""
    if not _comes_back(notes):
        return None
    for row in await run.service.store.read(lambda tx: steps.rows_of(tx, notes)):
        await guests.insist(run, steps.connect_reserved(notes, row, run))

    def place(tx: Session) -> None:
        disk_places.choose_host(tx, notes.server_id, notes.host, run.now())

    return Together(place)


async def return_guest(notes: RebuildServer, run: Run[Compute]) -> None:
    """Let the server have the guest that it had, on or off."""
    if _comes_back(notes):
        await guests.insist(run, _return_guest(notes, run))


async def complete_again(notes: RebuildServer, run: Run[Compute]) -> None:
    """Leave no volume between reserved and in-use."""
    for row in await run.service.store.read(lambda tx: steps.rows_of(tx, notes)):
        attachment = await reservations.find(run, row.attachment_id)
        if attachment is not None and attachment.status == "attaching":
            await disks.hold(run, disks.disk_of(row, notes.host))


def end_badly(tx: Session, notes: RebuildServer, run: Run[Compute]) -> None:
    """Give the server its former state back, or without what it boots from put it into ERROR."""
    if not notes.kept:
        break_down(tx, notes, run)
        return
    steps.give_back(tx, notes, run)
    if notes.found:
        steps.record_places(tx, notes, run)


def break_down(tx: Session, notes: RebuildServer, run: Run[Compute]) -> None:
    """Put the server into ERROR."""
    states.break_down(tx, notes.server_id, run.now())


def _comes_back(notes: RebuildServer) -> bool:
    return notes.kept and bool(notes.found)


async def _return_guest(notes: RebuildServer, run: Run[Compute]) -> None:
    await steps.require_host(notes, run)
    there = await guests.ask(run, notes.host, lambda agent: agent.show_server(notes.server_id))
    if there is not None:
        if notes.was_running:
            await steps.switch(notes, run, PowerRequest(state="on"))
        return
    if notes.has_local_root:
        raise Conflict(f"The guest of server {notes.server_id} is gone; rebuild it once more.")
    spec = await steps.specify(notes, run, is_back=True, power_on=notes.was_running)
    await guests.put(run, notes.host, notes.server_id, spec)


_complete_again = Step("complete_again", complete_again)
BAD_END = (
    Step("connect_again", connect_again),
    Step("return_guest", return_guest),
    _complete_again,
    Step("end_badly", end_badly),
)
"""What follows once it is settled whether the server can come back."""
BREAK_DOWN = (_complete_again, Step("break_down", break_down))
FORMER = Former(leaves=lambda notes: bool(notes.get("broken")))
