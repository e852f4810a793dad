"""Volumes of a new server that were asked for, and of which nobody knows what became."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.create.sagas import made_volumes
from mooring.compute.create.sagas.create_notes import (
    CreateServer,
    NewDisk,
    every,
    find,
    guest_disk,
    to_make,
)
from mooring.compute.volumes import reservations
from mooring.errors import MooringError
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from mooring.compute.service import Compute
    from mooring.fence.operation import Operation
    from mooring.saga.define import Run


async def delete_unheld(notes: CreateServer, run: Run[Compute]) -> None:
    """Delete the volumes that were made and that nobody holds; one with snapshots is kept."""
    for item in to_make(notes):
        if not find(notes, item).attachment_id:
            await _pay(made_volumes.delete_made(notes, item, run, _making(run, item)))


async def end_unanswered(notes: CreateServer, run: Run[Compute]) -> None:
    """End what a deletion of the server does not know of, or could not delete yet.

    What was asked for and never answered, or answered too late to be noted, goes: late requests
    come to nothing from now on. So does a volume that was to go with its server, once it is made.
    """
    for item in every(notes):
        await _pay(_end_unanswered(notes, item, run))


async def _pay(ending: Awaitable[None]) -> None:
    """Await an end; what is refused for good somebody has in hand who came later, or needs."""
    try:
        await ending
    except MooringError as error:
        if is_unavailable(error):
            raise


async def _end_unanswered(notes: CreateServer, item: str, run: Run[Compute]) -> None:
    disk = find(notes, item)
    if disk.volume_id:
        reserving = _reserving(run, disk, is_again=bool(notes.tried))
        await reservations.free_unnoted(run, guest_disk(notes, item), reserving)
    if disk.source != "volume" and (disk.delete_too or not disk.volume_id):
        await made_volumes.delete_made(notes, item, run, _making(run, item))


def _making(run: Run[Compute], item: str) -> Operation:
    return _asked_in(run, "make_volume", item)


def _reserving(run: Run[Compute], disk: NewDisk, *, is_again: bool) -> Operation:
    existing = "reserve_again" if is_again else "reserve_existing"
    step = existing if disk.source == "volume" else "reserve_made"
    return _asked_in(run, step, disk.block_device_id)


def _asked_in(run: Run[Compute], step: str, item: str) -> Operation:
    return run.operation.of_step(f"{step}:{item}")
