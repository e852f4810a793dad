"""How a swap of two volumes ends that cannot be finished, or not be taken back.

Behind the switch a refusal means one of two things. The guest kept the old volume, its host says:
then the new one is freed, and all is as before. Or it has the new one, and the host or the volume
service holds on to the old one: then the server is in ERROR while that is freed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.agent_api.mirrors import SWITCHED
from mooring.compute.volumes import devices, disks, reservations
from mooring.compute.volumes.sagas import detaching, swap_steps
from mooring.compute.volumes.sagas.release_device import begin_release, say_until_taken
from mooring.compute.volumes.sagas.swap_notes import SwapVolume, exchange, new_disk
from mooring.errors import Conflict
from mooring.saga.define import Run, Step, Together

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


async def end_copy(notes: SwapVolume, run: Run[Compute]) -> Together | SwapVolume | None:
    """Take the new volume from the host, of a guest that kept the old one; the host knows which.

    From then on whoever takes the place of this finds the old one at the server: it has gone on
    with that, maybe for long, and the new one has what it had when the copy ended.
    """
    if notes.switched:
        return None
    try:
        await swap_steps.end_copy(notes, run)
    except Conflict as error:
        if not error.detail.get(SWITCHED):
            raise
        now, switched = run.now(), replace(notes, switched=True)
        return Together(lambda tx: exchange(tx, notes, now), switched)
    return replace(notes, switching=False)


async def finish_new(notes: SwapVolume, run: Run[Compute]) -> SwapVolume | None:
    """See that the new volume is whole and in use, of a guest that has it."""
    if not notes.switched:
        return None
    await disks.hold(run, new_disk(notes))
    return await swap_steps.grow_disk(notes, run)


async def free_new(notes: SwapVolume, run: Run[Compute]) -> None:
    """Free the new volume of a guest that kept the old one."""
    if not notes.switched:
        await reservations.free(run, new_disk(notes))


def settle_spare(tx: Session, notes: SwapVolume, run: Run[Compute]) -> None:
    """Forget the new volume, or go on freeing the old one."""
    if notes.switched:
        begin_release(tx, run, notes.spare_id)
    else:
        devices.remove(tx, notes.spare_id)


async def hold_new(notes: SwapVolume, run: Run[Compute]) -> None:
    """Say that the new volume is in use: its host or its attachment would not let it go."""
    if not notes.switched:
        await disks.hold(run, new_disk(notes))


def release_spare(tx: Session, notes: SwapVolume, run: Run[Compute]) -> None:
    """Put the server into ERROR, and go on freeing the volume that is not its disk."""
    begin_release(tx, run, notes.spare_id)


async def return_owed(notes: SwapVolume, run: Run[Compute]) -> None:
    """Give the old volume its state back, of a server that others took over."""
    if not notes.switching:
        await detaching.roll_detaching(notes, run)


async def grow_owed(notes: SwapVolume, run: Run[Compute]) -> None:
    """Give the new volume its own size back, where the server goes on with it.

    Its guest has it once the old one was taken from it, which others see to.
    """
    if notes.switching and await run.service.store.read(lambda tx: _has_new(tx, notes)):
        await swap_steps.grow_disk(notes, run)


def _has_new(tx: Session, notes: SwapVolume) -> bool:
    row = devices.find(tx, notes.block_device_id)
    return row is not None and (row.volume_id, row.state) == (notes.new_volume_id, "attached")


def say_which(notes: SwapVolume, run: Run[Compute]) -> str:
    """Return which of the two volumes a server has, and what becomes of the other one."""
    old, new = f"volume {notes.volume_id}", f"volume {notes.new_volume_id}"
    if notes.keeps_id:
        old, new = f"{old} where it was", f"the copy of {old}"
    has, other = (new, old) if notes.switched else (old, new)
    if run.ends_badly and (notes.switched or run.undo_error is not None):
        return f"The server has {has}, and {say_until_taken(other, notes.host)}"
    return f"The server has {has}, as before; {other} was freed."


FREED = (
    # For as long as it takes: where nobody knows what the guest has, neither may go.
    Step("stop_copy", end_copy),
    Step("free_new", free_new),
    Step("finish_new", finish_new),
)
"""What becomes of the two volumes behind the switch, or what should have been one."""
FAILED = (
    *FREED,
    Step("return_volume", detaching.return_volume),
    Step("settle_spare", settle_spare),
)
"""Behind the switch, of a swap that somebody asked for."""
REFUSED = (
    Step("hold_new", hold_new),
    Step("return_old", detaching.return_volume),
    Step("release_spare", release_spare),
)
"""Where the host or the volume service holds on to the new volume."""
