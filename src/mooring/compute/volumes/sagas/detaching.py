"""A volume that its server lets go of: `detaching`, until it is gone or stays after all.

For sagas whose notes have the `volume_id`, and note in `detaching` that the volume service agreed,
so that there is something to roll back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mooring.compute.hosts import guests
from mooring.errors import Conflict, Invalid, MooringError
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import may_be_repeated
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


async def begin_detaching(notes: Any, run: Run[Compute]) -> Any:
    """Ask the volume service, with the user's own rights. A volume in another state is Invalid."""
    volumes = run.service.volumes
    try:
        await volumes.begin_detaching(run.user, notes.volume_id, operation=run.operation)
    except (Conflict, Invalid) as error:
        if is_unavailable(error):
            raise
        if not may_be_repeated(run) or not await _is_detaching(notes, run):
            raise Invalid(error.public, private=error.private) from error
    return replace(notes, detaching=True)


async def roll_detaching(notes: Any, run: Run[Compute]) -> None:
    """Give the volume its state back, when it was `begin_detaching` that changed it."""
    if not notes.detaching and not await _may_have_begun(notes, run):
        return
    operation = guests.other(run.operation, "roll")
    await run.service.volumes.roll_detaching(None, notes.volume_id, operation=operation)


async def _may_have_begun(notes: Any, run: Run[Compute]) -> bool:
    """Whether a `begin_detaching` without an answer worked: the volume was `in-use` before."""
    if run.error is not None and run.error.kind in {"invalid", "forbidden", "not_found"}:
        return False
    await run.service.volumes.session.bury(run.operation)
    return await _is_detaching(notes, run)


async def _is_detaching(notes: Any, run: Run[Compute]) -> bool:
    volume = await run.service.volumes.show(None, notes.volume_id)
    return volume.status == "detaching"


async def return_volume(notes: Any, run: Run[Compute]) -> None:
    """Let the volume be in use again: its attachment is still there."""
    try:
        await run.service.volumes.roll_detaching(None, notes.volume_id, operation=run.operation)
    except MooringError as error:
        # The clean-up goes on in any case, and a volume service that is silent must not stop it.
        if is_unavailable(error) and run.attempt < COMPUTE_UNDO_ATTEMPTS:
            raise
