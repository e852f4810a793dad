"""Which of two hosts has a guest that was on its way, once it goes nowhere any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.agent_api.servers import PowerRequest
from mooring.compute.hosts import guests
from mooring.compute.moves import keeper
from mooring.saga.define import Run

if TYPE_CHECKING:
    from mooring.agent_api.client import AgentClient
    from mooring.compute.service import Compute
    from mooring.fence.operation import Operation


class Found(Struct, frozen=True):
    """The host that has a guest, and how the guest is there; `is_lost`: none has."""

    host: str
    state: keeper.Seen
    is_lost: bool = False


async def find_guest(
    run: Run[Compute], server_id: str, hosts: tuple[str, str], sending: Operation
) -> Found:
    """See that a guest is under way no more from the first host to the second, and who has it.

    `sending` is the operation that sent it, or one that came later.
    """
    source, destination = hosts
    await _stop_sending(run, source, server_id, sending)
    here = await _look(run, source, server_id)
    there = await _look(run, destination, server_id)
    side = keeper.find_keeper(here, there)
    if side == "destination":
        return Found(destination, there)
    return Found(source, here, is_lost=side == "nobody")


async def _stop_sending(
    run: Run[Compute], source: str, server_id: str, operation: Operation
) -> None:
    """See that a guest goes nowhere from its host, now and by no call that comes late."""
    if await guests.is_lost(run, source):
        return

    async def verb(agent: AgentClient) -> None:
        await agent.cancel_departure(server_id, operation=operation)

    await guests.ask(run, source, verb)


async def _look(run: Run[Compute], host: str, server_id: str) -> keeper.Seen:
    """Return what a host holds of a guest."""
    if await guests.is_lost(run, host):
        return "lost"
    guest = await guests.ask(run, host, lambda agent: agent.show_server(server_id))
    return "absent" if guest is None else guest.state


async def resume(run: Run[Compute], host: str, server_id: str) -> None:
    """Let a guest that stands still run on."""
    request = PowerRequest(state="on")

    async def verb(agent: AgentClient) -> None:
        await agent.set_power(server_id, request, operation=run.operation)

    await guests.ask(run, host, verb)
