"""A server's volumes at the host to which it goes, beside the one where it is (specs 001)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from mooring.compute.moves.sagas.move_notes import Move, find, given, there
from mooring.compute.volumes import disk_places, disks, second_place
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Each, Run, Step

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.fence.operation import Operation

M = TypeVar("M", bound=Move)
_CONNECT = "connect_there"


async def reserve_there(notes: M, item: str, run: Run[Compute]) -> M:
    """Make a second attachment of a volume, exported to the destination."""
    made = await second_place.reserve(run, there(notes, item))
    moved = replace(find(notes, item), made=made)
    others = {disk.block_device_id: disk for disk in notes.disks}
    return replace(notes, disks=list((others | {item: moved}).values()))


def save_place(tx: Session, notes: Move, item: str, run: Run[Compute]) -> None:
    """Note that the volume is at the destination, too."""
    disk_places.add(tx, item, notes.destination, find(notes, item).made, run.now())


def forget_place(tx: Session, notes: Move, item: str, run: Run[Compute]) -> None:
    """Say that the volume is where it was."""
    del run
    disk_places.remove(tx, item, notes.destination)


def connecting(run: Run[Compute], item: str) -> Operation:
    """Return the operation by which this move connects a volume to the destination."""
    return run.operation.of_step(f"{_CONNECT}:{item}")


async def connect_there(notes: Move, item: str, run: Run[Compute]) -> None:
    """Connect a volume to the destination."""
    await second_place.connect(run, there(notes, item))


def record_place(tx: Session, notes: Move, item: str, run: Run[Compute]) -> None:
    """Say that the destination has the volume."""
    disk_places.change(tx, item, notes.destination, run.now(), state="attached")


_there = disks.Steps(there)
BOTH_PLACES = Each(
    "moved",
    given,
    Step("reserve_there", reserve_there, undo=_there.free),
    Step("save_place", save_place, undo=forget_place),
    Step(
        _CONNECT,
        connect_there,
        undo=_there.leave,
        undo_attempts=COMPUTE_UNDO_ATTEMPTS,
    ),
    Step("complete_there", _there.complete),
    Step("record_place", record_place),
)
