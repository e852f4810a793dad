"""Giving back what placement holds for a server that is put away (specs 001, Shelve)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.shelve.sagas.shelve_notes import has_left
from mooring.errors import MooringError
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from mooring.compute.service import Compute
    from mooring.compute.shelve.sagas.shelve_notes import OffloadServer
    from mooring.saga.define import Run


async def release_claim(notes: OffloadServer, run: Run[Compute]) -> None:
    """Hold no room for the server."""
    await run.service.placement.release(notes.server_id, operation=run.operation)


async def release_rest(notes: OffloadServer, run: Run[Compute]) -> None:
    """Hold no room for a server that has left its host after all; what stays, the doctor names."""
    if not has_left(notes):
        return
    try:
        await release_claim(notes, run)
    except MooringError as error:
        if is_unavailable(error) and run.attempt < COMPUTE_UNDO_ATTEMPTS:
            raise
