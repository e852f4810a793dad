"""Volumes that a server has by the calls of before attachments: they have none (specs 001).

They are given so while the gate of attachments is closed, as the volume service does not offer them
or a host is too old, and are given back by the same calls, also at the end of a move whose other
host has the volume by an attachment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from mooring.compute.hosts import guests
from mooring.compute.volumes import devices, disk_places
from mooring.errors import Conflict, Invalid, NotFound
from mooring.saga.define import may_be_repeated
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.orm import Session

    from mooring.clients.volume import Volume
    from mooring.compute.service import Compute
    from mooring.compute.volumes.disks import Disk
    from mooring.fence.operation import Operation
    from mooring.saga.define import Run

BY_OLD_CALLS = "old calls"
"""Stands for the attachment of a volume at a host to which the old calls gave it: it has none."""
_ATTACHING = "attaching"
"""What `os-reserve` makes of a volume."""
CLOSED = "the volume service is older than 3.44, or some host older than service version 24"
"""Why there are no attachments to give volumes by."""
_DEFINITE = frozenset({"invalid", "forbidden", "not_found", "over_quota"})


def named(attachment_id: str) -> str | None:
    """Return the attachment that notes have for a place, None where it has none."""
    return None if attachment_id == BY_OLD_CALLS else attachment_id or None


def read(disk: Disk) -> Disk:
    """Return a disk as notes have it in whose flow there is no attachment."""
    reserved = disk.attachment_id == BY_OLD_CALLS
    return replace(disk, attachment_id=named(disk.attachment_id or ""), reserved=reserved)


# -- given -------------------------------------------------------------------------------------


async def reserve(run: Run[Compute], disk: Disk, *, as_user: bool) -> str:
    """Keep a volume for the server: it is `attaching`. Raises Invalid, Conflict, NotFound.

    One that is so when this comes once more is its own: nobody else has it here meanwhile.
    """
    volumes, caller = run.service.volumes, run.user if as_user else None
    try:
        await volumes.act(caller, disk.volume_id, "os-reserve", operation=run.operation)
    except (Invalid, Conflict) as error:
        if is_unavailable(error) or not may_be_repeated(run):
            raise
        if (await volumes.show(None, disk.volume_id)).status != _ATTACHING:
            raise
    return BY_OLD_CALLS


async def export(
    run: Run[Compute], disk: Disk, *, operation: Operation | None = None
) -> Mapping[str, Any]:
    """Have a volume exported to its host, once more or not; return how to connect it."""
    arguments = {"connector": await guests.connector(run, disk.host or "")}
    answer = await run.service.volumes.act(
        None, disk.volume_id, "os-initialize_connection", arguments, operation=operation
    )
    connection: Mapping[str, Any] = answer["connection_info"]
    return connection


def exported_again(run: Run[Compute]) -> Operation:
    """Return the operation under which a step that starts a guest exports its volumes once more."""
    return guests.other(run.operation, "export")


async def attach(run: Run[Compute], disk: Disk, operation: Operation) -> None:
    """Say that the server has the volume: it is in use. One that is read-only is attached so."""
    volume = await run.service.volumes.show(None, disk.volume_id)
    if may_be_repeated(run) and await _find(run, disk, volume):
        return
    is_read_only = volume.metadata.get("readonly", "").lower() == "true"
    arguments = {
        "instance_uuid": disk.server_id,
        "mountpoint": disk.device_name or "",
        "mode": "ro" if is_read_only else "rw",
    }
    await run.service.volumes.act(None, disk.volume_id, "os-attach", arguments, operation=operation)


# -- and back ----------------------------------------------------------------------------------


async def refuse_late(run: Run[Compute], disk: Disk) -> None:
    """See that a call of the step that is taken back comes to nothing from now on."""
    if disk.old_calls:
        await run.service.volumes.session.bury(run.operation)


async def free(run: Run[Compute], disk: Disk) -> None:
    """Free a volume that `reserve` kept, and whatever became of it since. Gone is fine.

    What was refused was never kept; whose answer is not known is let go if it is `attaching`.
    """
    volumes = run.service.volumes
    await volumes.session.bury(run.operation)
    if not disk.reserved and run.error is not None and run.error.kind in _DEFINITE:
        return
    try:
        volume = await volumes.show(None, disk.volume_id)
        if disk.reserved:
            mine = await _find(run, disk, volume)
            if not disk.host and not mine:
                # No host was found, so there is no export, nor a connector to name one by.
                await _unreserve(run, disk, run.operation)
            elif mine or not volume.attachments:
                await _give_back(run, disk, mine)
        elif volume.status == _ATTACHING and not volume.attachments:
            await _unreserve(run, disk, run.operation)
    except NotFound:
        return


async def end(run: Run[Compute], disk: Disk, *, is_known: bool = True) -> None:
    """End the export to a host and free the volume. Gone is fine.

    What is not known to have the volume any more may have it exported all the same: it is ended
    unless another server has the volume, whose export it may be. So is one that was only kept.
    """
    try:
        volume = await run.service.volumes.show(None, disk.volume_id)
        mine = await _find(run, disk, volume)
        if not mine and not await _is_kept(run, disk, volume):
            has_others = any(one.server_id != disk.server_id for one in volume.attachments)
            if is_known or has_others:
                return
        await _give_back(run, disk, mine)
    except NotFound:
        return


async def end_unanswered(run: Run[Compute], disk: Disk, reserving: Operation) -> None:
    """Free what was kept under an operation that nobody noted, of a server that is to go.

    What was noted ends with the server; what another one has by now is that one's.
    """
    volume_id = disk.volume_id
    if not disk.old_calls or await run.service.store.read(lambda tx: _is_others(tx, disk)):
        return
    await run.service.volumes.session.bury(reserving)
    try:
        volume = await run.service.volumes.show(None, volume_id)
        if volume.status == _ATTACHING and not volume.attachments:
            await _unreserve(run, disk, reserving)
    except NotFound:
        return


async def _give_back(run: Run[Compute], disk: Disk, mine: list[str]) -> None:
    """End the export, by which a volume that is `attaching` is free, and say who has it no more.

    The host's name is enough of its connector: what hosts connect is files, let in by no more. So
    a host that is silent or gone is not asked.
    """
    volumes = run.service.volumes
    arguments: dict[str, Any] = {"connector": {"host": disk.host or ""}}
    operation = guests.other(run.operation, "terminate")
    await volumes.act(
        None, disk.volume_id, "os-terminate_connection", arguments, operation=operation
    )
    for attachment_id in mine[:1]:
        arguments = {"attachment_id": attachment_id}
        await volumes.act(None, disk.volume_id, "os-detach", arguments, operation=run.operation)


async def _unreserve(run: Run[Compute], disk: Disk, reserving: Operation) -> None:
    operation = guests.other(reserving, "unreserve")
    await run.service.volumes.act(None, disk.volume_id, "os-unreserve", operation=operation)


# -- what there is -----------------------------------------------------------------------------


async def is_held(run: Run[Compute], disk: Disk) -> bool:
    """Whether the volume service has the volume for the server, by the old calls."""
    try:
        volume = await run.service.volumes.show(None, disk.volume_id)
    except NotFound:
        return False
    return bool(await _find(run, disk, volume))


async def hold(run: Run[Compute], disk: Disk) -> bool:
    """See that the volume is in use which its host would not let go; False when it is not kept."""
    if await is_held(run, disk):
        return True
    if disk.reserved:
        await attach(run, disk, guests.other(run.operation, "hold"))
    return disk.reserved


async def are_left(run: Run[Compute], block_device_id: str) -> bool:
    """Whether a server still has a volume by the old calls somewhere."""
    there = await run.service.store.read(lambda tx: disk_places.of_device(tx, block_device_id))
    return any(place.attachment_id is None for place in there)


async def _find(run: Run[Compute], disk: Disk, volume: Volume) -> list[str]:
    """Return what the volume service calls the server's attachments that no place of it has."""
    places = await run.service.store.read(lambda tx: disk_places.attachments_of(tx, disk.volume_id))
    return [
        found.attachment_id
        for found in volume.attachments
        if found.server_id == disk.server_id and found.attachment_id not in places
    ]


async def _is_kept(run: Run[Compute], disk: Disk, volume: Volume) -> bool:
    """Whether a volume is `attaching` that was noted for the server, and that nobody has yet."""
    if volume.status != _ATTACHING or volume.attachments:
        return False
    return await run.service.store.read(lambda tx: _is_noted(tx, disk))


def _is_noted(tx: Session, disk: Disk) -> bool:
    row = devices.find_volume(tx, disk.server_id, disk.volume_id)
    if row is None:
        return False
    return any(place.attachment_id is None for place in disk_places.of_device(tx, row.id))


def _is_others(tx: Session, disk: Disk) -> bool:
    rows = devices.of_volume(tx, disk.volume_id)
    return any(row.server_id != disk.server_id for row in rows) or _is_noted(tx, disk)
