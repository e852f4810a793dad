"""How a guest is found, and shown, when a rescue or its end has failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from mooring.compute.hosts import guests
from mooring.compute.power.sagas import power
from mooring.compute.rescue.sagas.rescue_notes import ChangeRescue
from mooring.compute.servers import states
from mooring.errors import Conflict

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.saga.define import Run

N = TypeVar("N", bound=ChangeRescue)


async def require_host(notes: ChangeRescue, run: Run[Compute]) -> None:
    """Raise Conflict when the host was removed or forced down."""
    if await guests.is_lost(run, notes.host):
        raise Conflict(
            f"Host {notes.host} was forced down. Server {notes.server_id} was left as it is; "
            "delete it, or have it evacuated. One that is rescued goes once its state was reset to "
            "error."
        )


async def look_at_guest(notes: N, run: Run[Compute]) -> N:
    """See what became of the guest: what failed may have happened all the same.

    Of a host that is lost nothing is known.
    """
    if await guests.is_lost(run, notes.host):
        return replace(notes, found="", in_rescue=False)
    guest = await guests.ask(run, notes.host, lambda agent: agent.show_server(notes.server_id))
    if guest is None:
        return replace(notes, found="", in_rescue=False)
    return replace(notes, found=guest.state, in_rescue=bool(guest.rescue_image_id))


def give_up(tx: Session, notes: ChangeRescue, run: Run[Compute]) -> None:
    """Leave the server as its guest is: rescued, while that boots from the disk of a rescue."""
    if notes.in_rescue:
        states.change(tx, notes.server_id, run.now(), task_state=None)
    else:
        power.give_up(tx, notes, run)
