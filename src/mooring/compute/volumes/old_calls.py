"""Volumes that a server got by the calls of before attachments: they have none (specs 001).

They are given back by the same calls, also at the end of a move whose other host has the volume by
an attachment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.compute.hosts import guests
from mooring.compute.volumes import disk_places
from mooring.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.compute.service import Compute
    from mooring.compute.volumes.disks import Disk
    from mooring.saga.define import Run


async def export(run: Run[Compute], disk: Disk) -> Mapping[str, Any]:
    """Have a volume exported to its host, once more or not; return how to connect it."""
    arguments = {"connector": await guests.connector(run, disk.host or "")}
    answer = await run.service.volumes.act(
        None, disk.volume_id, "os-initialize_connection", arguments
    )
    connection: Mapping[str, Any] = answer["connection_info"]
    return connection


async def end(run: Run[Compute], disk: Disk, *, is_known: bool = True) -> None:
    """End the export to a host and free the volume. Gone is fine.

    What is not known to have the volume any more may have it exported all the same: it is ended
    unless another server has the volume, whose export it may be.
    """
    volumes = run.service.volumes
    try:
        mine = await _find(run, disk)
        if not mine and (is_known or await _has_others(run, disk)):
            return
        arguments: dict[str, Any] = {"connector": await _connector(run, disk.host)}
        operation = guests.other(run.operation, "terminate")
        await volumes.act(
            None, disk.volume_id, "os-terminate_connection", arguments, operation=operation
        )
        for attachment_id in mine[:1]:
            arguments = {"attachment_id": attachment_id}
            await volumes.act(None, disk.volume_id, "os-detach", arguments, operation=run.operation)
    except NotFound:
        return


async def is_held(run: Run[Compute], disk: Disk) -> bool:
    """Whether the volume service has the volume for the server, by the old calls."""
    try:
        return bool(await _find(run, disk))
    except NotFound:
        return False


async def are_left(run: Run[Compute], block_device_id: str) -> bool:
    """Whether a server still has a volume by the old calls somewhere."""
    there = await run.service.store.read(lambda tx: disk_places.of_device(tx, block_device_id))
    return any(place.attachment_id is None for place in there)


async def _find(run: Run[Compute], disk: Disk) -> list[str]:
    """Return what the volume service calls the server's attachments that no place of it has.

    Raises NotFound: there is no such volume.
    """
    volume = await run.service.volumes.show(None, disk.volume_id)
    places = await run.service.store.read(lambda tx: disk_places.attachments_of(tx, disk.volume_id))
    return [
        found.attachment_id
        for found in volume.attachments
        if found.server_id == disk.server_id and found.attachment_id not in places
    ]


async def _has_others(run: Run[Compute], disk: Disk) -> bool:
    volume = await run.service.volumes.show(None, disk.volume_id)
    return any(found.server_id != disk.server_id for found in volume.attachments)


async def _connector(run: Run[Compute], host: str | None) -> dict[str, Any]:
    """Return the connector of a host, or as much as is known of one that is lost."""
    if host is not None and not await guests.is_lost(run, host):
        return await guests.connector(run, host)
    return {"host": host or ""}
