"""What a swap of two volumes asks hosts and the volume service for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.hosts import guests
from mooring.compute.volumes import disks, mirroring, reservations
from mooring.compute.volumes.sagas.extend_notes import GIB
from mooring.compute.volumes.sagas.swap_notes import (
    SwapVolume,
    host_disk,
    new_disk,
    old_disk,
)
from mooring.errors import Conflict, Invalid, MooringError, NotFound, Unavailable
from mooring.fence.rules import is_fenced
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


async def reserve(notes: SwapVolume, run: Run[Compute]) -> SwapVolume:
    """Reserve the new volume for the server, as whoever asked."""
    try:
        return replace(notes, made=await reservations.reserve(run, new_disk(notes)))
    except (Conflict, NotFound) as error:
        if is_unavailable(error):
            raise
        raise Invalid(error.public, private=error.private) from error


async def begin_copy(notes: SwapVolume, run: Run[Compute]) -> None:
    """Give the new volume to the host, and let the guest's emulator copy the old one to it."""
    await mirroring.begin(run, old_disk(notes), host_disk(notes))


async def await_copy(notes: SwapVolume, run: Run[Compute]) -> None:
    """Wait until both volumes are in step."""
    await mirroring.until_in_step(run, old_disk(notes))


async def end_copy(notes: SwapVolume, run: Run[Compute]) -> None:
    """Let the guest have the old volume alone, and take the new one from the host."""
    await mirroring.stop(run, old_disk(notes), host_disk(notes))


async def switch(notes: SwapVolume, run: Run[Compute]) -> SwapVolume:
    """Let the guest have the new volume alone."""
    is_known = await mirroring.switch(run, old_disk(notes), host_disk(notes))
    return replace(notes, is_presumed=not is_known)


async def grow_disk(notes: SwapVolume, run: Run[Compute]) -> SwapVolume | None:
    """Give the new volume its own size back, and tell the guest of it.

    It has that by right, so a refusal is not final: a host that refuses for long is left alone, and
    the operation says so.
    """
    if not notes.grows_to_gib:
        return None
    try:
        await mirroring.grow(run, new_disk(notes), notes.grows_to_gib * GIB)
    except MooringError as error:
        _try_again(run, error)
        left = (
            f"Volume {notes.new_volume_id} is not as large under its guest as it should be: "
            f"{error.public} Detach it and attach it again."
        )
        return replace(notes, left=left)
    return None


async def complete_new(notes: SwapVolume, run: Run[Compute]) -> None:
    """Tell the volume service that the guest has the new volume, which nobody takes from it."""
    try:
        await disks.complete(run, new_disk(notes))
    except MooringError as error:
        if not isinstance(error, NotFound):
            _try_again(run, error)
        raise


def _try_again(run: Run[Compute], error: MooringError) -> None:
    """Raise what has a refusal tried again, up to `COMPUTE_UNDO_ATTEMPTS` times; fences' never.

    What is only unavailable is waited for: a host that is silent may be alive.
    """
    if is_fenced(error) or is_unavailable(error):
        raise error
    if run.attempt < COMPUTE_UNDO_ATTEMPTS:
        raise Unavailable(error.public, private=error.private, **error.detail) from error


async def disconnect_old(notes: SwapVolume, run: Run[Compute]) -> None:
    """Take the old volume from the host and, where nobody knows which it has, from the guest."""
    old = old_disk(notes)
    leaving = disks.take(run, old) if notes.is_presumed else disks.leave(run, old)
    await guests.insist(run, leaving)
