"""A volume given to a second host, which is to get the guest that has it at the first one.

Both hosts are in `disk_places` meanwhile. `reservations.free` and `disks.leave` take this back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.hosts import guests
from mooring.compute.volumes import reservations
from mooring.errors import Invalid, Unavailable
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import may_be_repeated

if TYPE_CHECKING:
    from mooring.agent_api.client import AgentClient
    from mooring.compute.service import Compute
    from mooring.compute.volumes.disks import Disk
    from mooring.saga.define import Run


async def reserve(run: Run[Compute], disk: Disk) -> str:
    """Make an attachment that is exported to the host from the start; return its id.

    An empty one could not be connected while another one is (facts/compute.md 4.2). Raises Invalid
    or Conflict for the volume's state, and what the storage says against the host; Unavailable
    while another server is being given the volume.
    """
    volumes = run.service.volumes
    connector = await guests.connector(run, disk.host or "", disk.device_name)
    if may_be_repeated(run):
        for mine in await reservations.find_own(run, disk):
            if (await volumes.show_attachment(None, mine)).connection_info:
                return mine
    try:
        made = await volumes.create_attachment(
            None, disk.volume_id, disk.server_id, connector=connector, operation=run.operation
        )
    except Invalid as error:
        await _require_rest(run, disk, error)
        raise
    return made.id


async def _require_rest(run: Run[Compute], disk: Disk, refusal: Invalid) -> None:
    """Raise Unavailable when a volume was refused because another server was being given it.

    The volume is `attaching` from its export until the completion, which is the other server's, and
    may be `in-use` again by now (facts/block_storage.md 2.4).
    """
    volume = await run.service.volumes.show(None, disk.volume_id)
    may_be_over = volume.status == "in-use" and run.attempt < COMPUTE_UNDO_ATTEMPTS
    if volume.status == "attaching" or may_be_over:
        raise Unavailable(
            f"Volume {disk.volume_id} is being given to another server, or to another host.",
            private=refusal.public,
        ) from refusal


async def connect(run: Run[Compute], disk: Disk) -> None:
    """Connect an exported volume to the host, for the guest that is to come."""
    shown = await run.service.volumes.show_attachment(None, disk.attachment_id or "")

    async def verb(agent: AgentClient) -> None:
        await agent.connect(
            disk.connection_id,
            disk.volume_id,
            shown.connection_info,
            server_id=disk.server_id,
            operation=run.operation,
        )

    await guests.ask(run, disk.host or "", verb)
