"""A swap that the volume service asks for, to migrate a volume: what is told it of the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.clients import migrations
from mooring.compute.hosts import guests
from mooring.compute.volumes import devices
from mooring.errors import Conflict, Forbidden, Invalid, MooringError, NotFound, Unavailable
from mooring.saga.define import Together, may_be_repeated
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from mooring.clients.volume import Volume
    from mooring.compute.service import Compute
    from mooring.compute.volumes.sagas.swap_notes import SwapVolume
    from mooring.saga.define import Run

_GIVEN_UP = "error"
"""The status of a copy for which the volume service does not wait any more."""


async def report_done(notes: SwapVolume, run: Run[Compute]) -> None:
    """Say that the guest has the copy. Raises Conflict when the volume service does not want that.

    A volume service that knows no operations refuses what it has heard already.
    """
    try:
        kept = await _complete(notes, run, error=False)
    except (Conflict, Invalid, NotFound) as error:
        if is_unavailable(error):
            raise
        if may_be_repeated(run) and await _find_copy(notes, run) is None:
            return
        raise Conflict(
            f"The volume service did not take the copy of volume {notes.volume_id} for the volume: "
            f"{error.public} Server {notes.server_id} goes on with the copy.",
            private=error.private,
        ) from error
    if kept != notes.volume_id:
        raise Conflict(
            f"The volume service calls volume {notes.volume_id} {kept} from now on, and its guest "
            "does not. Detach it and attach it again."
        )


async def report_failed(notes: SwapVolume, run: Run[Compute]) -> Together:
    """Say that the guest keeps what it has, unless nobody waits for that; forget the spare row."""
    await _tell(notes, run, error=True)
    return Together(lambda tx: devices.remove(tx, notes.spare_id))


async def report_outcome(notes: SwapVolume, run: Run[Compute]) -> None:
    """Say which of the two the guest has, at a bad end, whoever holds on to the other one."""
    await _tell(notes, run, error=not notes.switched)


async def report_owed(notes: SwapVolume, run: Run[Compute]) -> None:
    """Say it of a server that others took over: from the switch on they go on with the copy."""
    await _tell(notes, run, error=not notes.switching)


async def _tell(notes: SwapVolume, run: Run[Compute], *, error: bool) -> None:
    try:
        await _complete(notes, run, error=error)
    except Forbidden as refusal:
        # It waits for this word without end, so one that is not taken is said again.
        raise Unavailable(
            f"The volume service does not let compute's own user complete the migration of volume "
            f"{notes.volume_id}, which it waits for. Let that user have the role that its policy "
            "asks for (volume_extension:volume_admin_actions:migrate_volume_completion)."
        ) from refusal
    except MooringError as refusal:
        if is_unavailable(refusal):
            raise
        copy = await _find_copy(notes, run)
        if copy is not None and copy.status != _GIVEN_UP:
            raise Unavailable(
                f"The volume service waits to hear how the migration of volume {notes.volume_id} "
                f"went, and does not take it: {refusal.public}",
                private=refusal.private,
            ) from refusal
        # It has heard that, or does not wait for it any more.


async def _complete(notes: SwapVolume, run: Run[Compute], *, error: bool) -> str:
    return await migrations.complete(
        run.service.volumes,
        None,
        (notes.volume_id, notes.new_volume_id),
        error=error,
        operation=guests.other(run.operation, "failed" if error else "done"),
    )


async def _find_copy(notes: SwapVolume, run: Run[Compute]) -> Volume | None:
    """Return the copy, if the volume service still has it as a volume of its own."""
    try:
        new = await run.service.volumes.show(None, notes.new_volume_id)
    except NotFound:
        return None
    return new if (new.migration_status or "").startswith("target:") else None
