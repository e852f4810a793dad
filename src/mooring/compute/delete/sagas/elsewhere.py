"""What other hosts have of a server that is deleted: it was on its way, or may go back there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.hosts import guest_disks
from mooring.errors import MooringError
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from mooring.compute.delete.sagas.delete_notes import DeleteServer
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


async def destroy(notes: DeleteServer, host: str, run: Run[Compute]) -> None:
    """End what another host has of the guest."""
    await guest_disks.remove_all(run, host, notes.server_id, is_local=notes.is_local)


async def end(notes: DeleteServer, run: Run[Compute]) -> DeleteServer:
    """End what other hosts still have of the guest: nobody moves it any more, nor asks them again.

    A host that refuses for good keeps it; the operation says so, and the doctor names it.
    """
    kept = list(notes.kept)
    for host in notes.elsewhere:
        try:
            await guest_disks.remove_all(run, host, notes.server_id, is_local=notes.is_local)
        except MooringError as error:
            if is_unavailable(error):
                raise
            kept.append(f"Host {host} kept what it had of the server: {error.public}")
    return replace(notes, kept=kept)
