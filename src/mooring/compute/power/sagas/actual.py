"""What a reset finds of a server: no guest at its host, no room held for it, or no host at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.groups import affinity
from mooring.compute.hosts import guests
from mooring.compute.moves.sagas import claiming
from mooring.compute.tables import Server
from mooring.saga.define import Together

if TYPE_CHECKING:
    from mooring.compute.service import Compute
    from mooring.errors import NoCapacity
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


async def hold_again(run: Run[Compute], server_id: str) -> NoCapacity | None:
    """Hold room for a server at a host which an offload or a deletion let go of before its end.

    Returns what is to be told where the host has none left for it.
    """
    server = await run.service.store.read(lambda tx: tx.get(Server, server_id))
    if server is None or server.host is None or server.launched_at is None:
        return None
    renewing = guests.other(run.operation, "held")
    if await run.service.placement.renew(server_id, operation=renewing):
        return None
    return await claiming.claim_there(run, server_id, server.host)


async def give_back(run: Run[Compute], server_id: str) -> Together | None:
    """Give back the room and the place that whoever had chosen a host held for a server at none.

    It was being brought back, and is away after all or in ERROR; or it was being made.
    """
    server = await run.service.store.read(lambda tx: tx.get(Server, server_id))
    if server is None or server.host is not None:
        return None
    await run.service.placement.release(server_id, operation=run.operation)
    return Together(lambda tx: affinity.leave_place(tx, server_id))
