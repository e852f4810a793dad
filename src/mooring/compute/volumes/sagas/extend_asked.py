"""Whom a volume service asked to grow a volume: the servers that have it, and nobody else.

Any service may send the event `volume-extended` with the id of any server (facts/compute.md 8). A
server that has not the volume says nothing of how its growth went: its word would be taken for
that of the one that has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from mooring.compute.volumes import devices
from mooring.errors import NotFound

if TYPE_CHECKING:
    from mooring.compute.service import Compute
    from mooring.compute.volumes.sagas.extend_notes import ExtendVolume
    from mooring.saga.define import Run

log = structlog.get_logger()


async def may_answer(notes: ExtendVolume, run: Run[Compute]) -> bool:
    """Whether the volume service may wait for this server's completion.

    It is asked itself, of a server that has no such volume here. Where it lists none at all, the
    server's attachment has ended since, and the completion tells so. Raises Unavailable.
    """
    if not notes.owes_answer:
        return False
    if notes.block_device_id:
        return True
    volume_id, server_id = notes.volume_id, notes.server_id
    if await run.service.store.read(lambda tx: devices.find_volume(tx, server_id, volume_id)):
        return True
    try:
        volume = await run.service.volumes.show(None, volume_id)
    except NotFound:
        return False
    servers = {one.server_id for one in volume.attachments}
    if not servers or server_id in servers:
        return True
    log.warning("an event names a server without the volume", volume=volume_id, server=server_id)
    return False
