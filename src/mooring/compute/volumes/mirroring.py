"""A volume of a running server that is copied to another one, which then takes its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.agent_api.mirrors import SwitchRequest
from mooring.agent_api.verbs import FORGET_RESIZE, STOP_MIRROR
from mooring.compute.hosts import guests
from mooring.compute.volumes import disks
from mooring.errors import Conflict, NotFound
from mooring.limits import COMPUTE_CONTENT_WAIT_S, COMPUTE_VOLUME_POLL_S
from mooring.saga.define import Park, may_be_repeated

if TYPE_CHECKING:
    from mooring.agent_api.client import AgentClient
    from mooring.agent_api.mirrors import Mirroring
    from mooring.compute.service import Compute
    from mooring.compute.volumes.disks import Disk
    from mooring.saga.define import Run


async def begin(run: Run[Compute], old: Disk, new: Disk) -> None:
    """Export the new volume to the host, and have the copy begun.

    Raises Conflict when the host is lost, or does not copy.
    """
    await _require_host(run, old)
    spec = disks.describe(new, await disks.export(run, new))

    async def verb(agent: AgentClient) -> None:
        await agent.mirror_disk(old.server_id, old.volume_id, spec, operation=run.operation)

    await guests.ask(run, old.host or "", verb)


async def until_in_step(run: Run[Compute], old: Disk) -> None:
    """Rest until the new volume has all that the old one has. Raises Conflict: the copy ended."""
    await _require_host(run, old)

    async def verb(agent: AgentClient) -> Mirroring:
        return await agent.mirroring(old.server_id, old.volume_id)

    found = await guests.ask(run, old.host or "", verb)
    await run.progress(found.percent)
    if not found.in_step:
        raise Park(seconds=COMPUTE_VOLUME_POLL_S, timeout_s=COMPUTE_CONTENT_WAIT_S)


async def stop(run: Run[Compute], old: Disk, new: Disk) -> None:
    """End the copy, and disconnect the new volume; one of a host that is forced down owes it."""

    async def verb(agent: AgentClient) -> None:
        name = new.connection_id
        try:
            await agent.stop_mirror(old.server_id, old.volume_id, name, operation=run.operation)
        except NotFound:
            # An agent of the release before copies nothing; it may have been asked in vain.
            await agent.disconnect(name, operation=run.operation)

    path = STOP_MIRROR.target(old.server_id, old.volume_id, attachment_id=new.connection_id)
    await guests.take_back(run, old.host, path, verb)


async def switch(run: Run[Compute], old: Disk, new: Disk) -> bool:
    """Let the guest have the new volume; return whether its host is known to have done so.

    Of a host that was lost after it was asked nobody can tell. Both volumes were in step by then,
    so the new one has all that the guest has written, whichever of the two it had last. Raises
    Conflict when the guest keeps the old one.
    """
    if await guests.is_lost(run, old.host or ""):
        if may_be_repeated(run):
            return False
        await _require_host(run, old)
    wanted = SwitchRequest(volume_id=new.volume_id, attachment_id=new.connection_id)

    async def verb(agent: AgentClient) -> None:
        await agent.switch_disk(old.server_id, old.volume_id, wanted, operation=run.operation)

    await guests.ask(run, old.host or "", verb)
    return True


async def grow(run: Run[Compute], new: Disk, size_bytes: int) -> None:
    """Give the new volume its own size back, and tell the guest; a host that is lost owes it."""
    if await guests.is_lost(run, new.host or ""):

        async def owed(agent: AgentClient) -> None:
            await agent.forget_resize(new.server_id, new.volume_id, operation=run.operation)

        path = FORGET_RESIZE.target(new.server_id, new.volume_id)
        await guests.take_back(run, new.host, path, owed)
        return

    async def verb(agent: AgentClient) -> None:
        await agent.resize_disk(new.server_id, new.volume_id, size_bytes, operation=run.operation)

    await guests.ask(run, new.host or "", verb)


async def _require_host(run: Run[Compute], old: Disk) -> None:
    if await guests.is_lost(run, old.host or ""):
        raise Conflict(
            f"Host {old.host} was forced down. Volume {old.volume_id} was not swapped, and stays "
            f"attached to server {old.server_id}."
        )
