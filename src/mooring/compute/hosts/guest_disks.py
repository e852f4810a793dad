"""What hosts have of a server's root disk besides the one that its guest uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.agent_api.verbs import DISCARD_COPY, FORGET_KEPT
from mooring.compute.hosts import guests

if TYPE_CHECKING:
    from mooring.agent_api.client import AgentClient
    from mooring.compute.service import Compute
    from mooring.fence.operation import Operation
    from mooring.saga.define import Run


async def discard_copy(
    run: Run[Compute], host: str, server_id: str, operation: Operation | None = None
) -> None:
    """End a copy that a host makes of a server's disk, and remove what has come.

    With the `operation` that asked for it, that one cannot come late any more; so can none of an
    older lock. A host that was forced down owes it.
    """

    async def verb(agent: AgentClient) -> None:
        await agent.discard_copy(server_id, operation=operation or run.operation)

    await guests.take_back(run, host, DISCARD_COPY.target(server_id), verb)


async def remove_all(run: Run[Compute], host: str, server_id: str, *, is_local: bool) -> None:
    """End what a host has of a guest; of an `is_local` one also the copy that it may be making."""
    if is_local:
        await discard_copy(run, host, server_id)
    await guests.destroy(run, host, server_id)


async def forget_kept(
    run: Run[Compute], host: str, server_id: str, operation: Operation | None = None
) -> None:
    """Remove what a host keeps beside the disk that a guest uses; late calls as above."""

    async def verb(agent: AgentClient) -> None:
        await agent.forget_kept(server_id, operation=operation or run.operation)

    await guests.take_back(run, host, FORGET_KEPT.target(server_id), verb)
