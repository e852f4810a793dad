"""What a reset to active finds of a server: no guest at its host, or no host at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.groups import affinity
from mooring.compute.hosts import guests
from mooring.compute.servers import states
from mooring.compute.tables import Server
from mooring.saga.define import Together

if TYPE_CHECKING:
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


async def find_missing(run: Run[Compute], server_id: str) -> str:
    """Return the host that has no guest of a server which is to be active; "" where it has one.

    A host that is lost is not asked. Raises Unavailable while the host does not tell.
    """
    server = await run.service.store.read(lambda tx: tx.get(Server, server_id))
    if server is None or server.vm_state != "active" or server.host is None:
        return ""
    if await guests.is_lost(run, server.host):
        return ""
    return "" if await guests.claim(run, server.host, server_id) else server.host


async def give_back(run: Run[Compute], server_id: str) -> Together | None:
    """Give back the room that whoever brought a server back held, which is away after all."""
    server = await run.service.store.read(lambda tx: tx.get(Server, server_id))
    if server is None or server.vm_state != states.OFFLOADED or server.host is not None:
        return None
    await run.service.placement.release(server_id, operation=run.operation)
    return Together(lambda tx: affinity.leave_place(tx, server_id))
