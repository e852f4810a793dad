"""The room that a deletion gives back to placement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.moves import left_over

if TYPE_CHECKING:
    from mooring.compute.delete.sagas.delete_notes import DeleteServer
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


async def release_claim(notes: DeleteServer, run: Run[Compute]) -> None:
    """Give back what the server held of its host, and of one that it might have gone back to."""
    await run.service.placement.release(notes.server_id, operation=run.operation)
    await release_moves(notes, run)


async def release_moves(notes: DeleteServer, run: Run[Compute]) -> None:
    """Give back what is held where the server might have gone back to: it does not any more."""
    await left_over.release(run, notes.moves)
