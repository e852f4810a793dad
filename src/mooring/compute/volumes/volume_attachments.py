"""Volumes of a server: what a user may ask for, and when (facts/compute.md 2)."""

from __future__ import annotations

import uuid
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring.clients.placement import has_trait
from mooring.compute.actions import actions
from mooring.compute.create import block_devices
from mooring.compute.hosts import hosts
from mooring.compute.servers import servers, states
from mooring.compute.tables import BlockDevice, Server
from mooring.compute.volumes import buses, devices, disk_places
from mooring.compute.volumes.old_calls import CLOSED
from mooring.compute.volumes.sagas.attach_volume import ATTACH_VOLUME, AttachVolume
from mooring.compute.volumes.sagas.detach_volume import DETACH_VOLUME, DetachVolume
from mooring.compute.volumes.sagas.waiting import ATTACH_WAITING, DETACH_WAITING
from mooring.errors import Conflict, Invalid, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from sqlalchemy.orm import Session

    from mooring.clients.volume import Volume
    from mooring.compute.service import Compute
    from mooring.compute.tables import Host
    from mooring.who import Who

    T = TypeVar("T")


class NewAttachment(Struct, frozen=True, kw_only=True):
    """What POST os-volume_attachments asks for, and what its microversion lets it.

    `to_shelved`: to a server that was put away; `multiattach`: a volume for several servers;
    `unawaited`: it is answered before the volume is reserved.
    """

    volume_id: str
    device: str | None = None
    tag: str | None = None
    delete_on_termination: bool = False
    to_shelved: bool = False
    multiattach: bool = False
    unawaited: bool = False


class Update(Struct, frozen=True, kw_only=True):
    """What PUT asks for from 2.85 on; None where the body says nothing."""

    id: str | None = None
    server_id: str | None = None
    device: str | None = None
    tag: str | None = None
    delete_on_termination: bool | None = None


def page(
    tx: Session,
    who: Who,
    server_id: str,
    *,
    by_attachment: bool,
    offset: int = 0,
    limit: int = 1000,
) -> Sequence[BlockDevice]:
    """Return the volumes of a server; `by_attachment` only those that have one."""
    servers.visible(tx, who, server_id)
    found = devices.of_server(tx, server_id)
    shown = [row for row in found if _is_shown(row, by_attachment=by_attachment)]
    return [row for row in shown if not devices.is_copy(row)][offset : offset + limit]


def visible(
    tx: Session, who: Who, server_id: str, volume_id: str, *, by_attachment: bool
) -> BlockDevice:
    """Return the block device by which a server has a volume. Raises NotFound."""
    servers.visible(tx, who, server_id)
    row = devices.find_volume(tx, server_id, volume_id)
    if row is None or not _is_shown(row, by_attachment=by_attachment):
        raise _not_attached(server_id, volume_id)
    return row


async def attach(compute: Compute, who: Who, server_id: str, wanted: NewAttachment) -> BlockDevice:
    """Record the wish and its saga at once; wait until the volume is reserved, if that is awaited.

    Raises NotFound, Conflict, Invalid and Forbidden as facts/compute.md 2.4 lists them.
    """
    await compute.store.read(lambda tx: _check_state(tx, who, server_id, wanted))
    if wanted.device is not None:
        block_devices.check_device_name(wanted.device)
    volume = await compute.volumes.show(who, wanted.volume_id)
    there = await compute.volumes.find_attachments(who, volume_id=volume.id)

    def begin(tx: Session) -> tuple[BlockDevice, str]:
        server = _check_state(tx, who, server_id, wanted)
        host = _check_host(tx, compute, server)
        _check_volume(tx, compute, server, volume, wanted)
        _check_abilities(server, host, volume, wanted)
        buses.check_hot(server, buses.later(server), volume.id)
        by_old_calls = there is None or hosts.are_too_old(tx)
        if by_old_calls:
            _check_old_calls(server, volume)
        row = _reserve(tx, compute, server, host, (volume, wanted))
        known = [] if by_old_calls else [found.id for found in there or ()]
        notes = replace(
            _plan_attaching(row, server, known),
            old_calls=by_old_calls,
            accepted=wanted.unawaited,
            has_data=volume.status in {"available", "in-use"},
            is_filled=volume.status == "downloading",
        )
        return row, _start_attaching(tx, compute, who, notes)

    row, saga_id = await submit(compute, _ATTACH, (server_id, volume.id), begin)
    if not wanted.unawaited or row.device_name is None:
        await compute.sagas.answered(saga_id)
    return row


async def detach(
    compute: Compute, who: Who, server_id: str, volume_id: str, *, from_shelved: bool
) -> None:
    """Begin to detach, `from_shelved` servers too; answers once the volume service has agreed.

    Raises NotFound, Conflict and Invalid as facts/compute.md 2.6 lists them: what the volume
    service refuses, a second call among it, is Invalid.
    """
    await compute.store.read(
        lambda tx: _check_shelved(tx, who, server_id, _DETACH, allowed=from_shelved)
    )
    volume = await compute.volumes.show(who, volume_id)

    def begin(tx: Session) -> str:
        server = servers.visible(tx, who, server_id)
        row = devices.find_volume(tx, server_id, volume_id)
        if row is None:
            raise _not_attached(server_id, volume_id)
        if row.boot_index == 0:
            raise Invalid(
                f"Cannot detach a root device volume. Volume {volume_id} stays attached to server "
                f"{server_id}; delete the server instead."
            )
        states.require(server, who, _DETACH, states.ATTACHABLE)
        host = _check_host(tx, compute, server)
        # Were it `detaching` already, an unwinding could not tell whose doing that was.
        buses.check_hot(server, buses.of_row(row), volume_id)
        if row.state != "attached" or volume.status not in (_WAITING if host is None else _USED):
            raise Invalid(
                f"Invalid volume: volume {volume_id} is {volume.status}; only one that is in-use "
                "and attached can be detached. Nothing was changed; look at it again."
            )
        return _start_detaching(tx, compute, who, row, host)

    saga_id = await submit(compute, _DETACH, (server_id, volume_id), begin)
    await servers.until_answered(compute, saga_id)


async def update(
    compute: Compute, who: Who, server_id: str, volume_id: str, wanted: Update
) -> None:
    """Change what may change: delete_on_termination. Raises Invalid for the rest, NotFound."""

    def change(tx: Session) -> None:
        servers.visible(tx, who, server_id)
        row = devices.find_volume(tx, server_id, volume_id)
        if row is None:
            raise _not_attached(server_id, volume_id)
        fixed = {
            "id": (wanted.id, volume_id),
            "serverId": (wanted.server_id, server_id),
            "device": (wanted.device, row.device_name),
            "tag": (wanted.tag, row.tag),
        }
        for name, (asked, present) in fixed.items():
            if asked is not None and asked != present:
                raise Invalid(f"The {name} of a volume attachment is not mutable. Nothing changed.")
        if wanted.delete_on_termination is not None:
            values = {"delete_on_termination": wanted.delete_on_termination}
            devices.change(tx, row.id, compute.clock.now(), **values)

    await compute.store.write(change)


_ATTACH, _DETACH = "attach_volume", "detach_volume"
_USED, _WAITING = ("in-use",), ("in-use", "reserved")
"""What a volume is that can be detached: of a server at a host, and of one that was put away."""
_TAGGED = "COMPUTE_VOLUME_ATTACH_WITH_TAG"


async def submit(
    compute: Compute, action: str, ids: tuple[str, ...], begin: Callable[[Session], T]
) -> T:
    """Run `begin`. A volume that another operation holds is Invalid, as for the volume service.

    `ids`: the server's, and those of the volumes.
    """
    server_id, *volume_ids = ids
    try:
        return await servers.submit(compute, action, server_id, begin)
    except Conflict as error:
        holder = error.detail.get("holder")
        for volume_id in volume_ids if holder else ():
            if holder in await compute.store.read(partial(_holders, compute, volume_id=volume_id)):
                raise Invalid(
                    f"Invalid volume: volume {volume_id} is being attached or detached (operation "
                    f"{holder}). Nothing was changed; wait until that has ended.",
                ) from error
        raise


def _holders(compute: Compute, tx: Session, volume_id: str) -> list[str]:
    return compute.sagas.holders(tx, f"volume:{volume_id}")


def _is_shown(row: BlockDevice, *, by_attachment: bool) -> bool:
    """Tell whether it is a volume, `by_attachment` one with an attachment, as a guard asks."""
    return row.volume_id is not None and not (by_attachment and row.attachment_id is None)


def _not_attached(server_id: str, volume_id: str) -> NotFound:
    return NotFound(f"Instance {server_id} is not attached to volume {volume_id}.")


def _check_shelved(tx: Session, who: Who, server_id: str, action: str, *, allowed: bool) -> Server:
    server = servers.visible(tx, who, server_id)
    if server.vm_state.startswith("shelved") and not allowed:
        raise states.refusal(server_id, action, "vm_state", server.vm_state)
    return server


def _check_state(tx: Session, who: Who, server_id: str, wanted: NewAttachment) -> Server:
    server = _check_shelved(tx, who, server_id, _ATTACH, allowed=wanted.to_shelved)
    states.require(server, who, _ATTACH, states.ATTACHABLE)
    return server


def _check_host(tx: Session, compute: Compute, server: Server) -> Host | None:
    """Return a server's host, None for one that was put away. Raises Conflict: it is down."""
    if server.vm_state == states.OFFLOADED:
        return None
    now, down_after_s = compute.clock.now(), compute.settings.host_down_s
    return hosts.require_up(tx, server.host, now, down_after_s)


def _check_volume(
    tx: Session, compute: Compute, server: Server, volume: Volume, wanted: NewAttachment
) -> None:
    if devices.find_volume(tx, server.id, volume.id) is not None:
        raise Invalid(f"Invalid volume: volume {volume.id} is attached to server {server.id}.")
    if not volume.multiattach and devices.of_volume(tx, volume.id):
        raise Invalid(f"Invalid volume: volume {volume.id} is attached to another server.")
    if volume.multiattach and not wanted.multiattach:
        raise Invalid(
            f"Volume {volume.id} is multiattach, which needs compute API version 2.60. Nothing was "
            "attached."
        )
    check_zone(compute, server, volume)


def _check_old_calls(server: Server, volume: Volume) -> None:
    """Raise Conflict for what only attachments can do (specs 001)."""
    if volume.multiattach:
        raise Conflict(f"Volume {volume.id} is multiattach, and {CLOSED}. Nothing was attached.")
    if server.vm_state == states.OFFLOADED:
        raise Conflict(
            f"Server {server.id} is at no host, and {CLOSED}. Volume {volume.id} was not attached; "
            "unshelve the server first."
        )


def check_zone(compute: Compute, server: Server, volume: Volume) -> None:
    """Raise Invalid for a volume of another zone than its server, where that matters."""
    zone = volume.availability_zone
    own = server.zone if server.host else server.pinned_zone or zone
    if not compute.settings.cross_zone_attach and zone not in {None, own}:
        raise Invalid(
            f"Invalid volume: server {server.id} and volume {volume.id} are not in the same "
            f"availability zone: {own} and {zone}."
        )


def _check_abilities(
    server: Server, host: Host | None, volume: Volume, wanted: NewAttachment
) -> None:
    if host is None:
        if wanted.tag is not None or volume.multiattach:
            raise Invalid(
                f"Instance {server.id} is {states.OFFLOADED}: a volume with a tag, or one that "
                f"several servers may have, is attached while it is at a host. Volume {volume.id} "
                "was not attached; unshelve the server first."
            )
        return
    for needed, trait, what in (
        (wanted.tag is not None, _TAGGED, "show tags to its guests"),
        (volume.multiattach, devices.SHARING, "share volumes between guests"),
    ):
        if needed and not has_trait(host.traits, trait):
            raise Invalid(
                f"Host {host.name} cannot {what} (it lacks the trait {trait}). Volume {volume.id} "
                "was not attached."
            )


def _reserve(
    tx: Session,
    compute: Compute,
    server: Server,
    host: Host | None,
    what: tuple[Volume, NewAttachment],
) -> BlockDevice:
    """Add the block device with the name that the disk will have. Raises Conflict, Forbidden."""
    volume, wanted = what
    present, now = devices.of_server(tx, server.id), compute.clock.now()
    # At a host each disk has a name: what has none keeps the other volume of a swap.
    disks = [one for one in present if one.device_name or host is None]
    block_devices.check_count(len(disks) + bool(server.swap_mib), compute.settings.max_disks)
    buses.check_places([server.disk_bus, *buses.of_server(server, disks)])
    row = BlockDevice(
        id=str(uuid.uuid4()),
        server_id=server.id,
        state="reserving",
        source_type="volume",
        destination_type="volume",
        device_name=_choose_name(server, host, present, wanted.device),
        volume_id=wanted.volume_id,
        multiattach=volume.multiattach,
        tag=wanted.tag,
        delete_on_termination=wanted.delete_on_termination,
        disk_bus=None if server.disk_bus == "virtio" else server.disk_bus,
        created_at=now,
        updated_at=now,
    )
    return devices.add(tx, row)


def _choose_name(
    server: Server, host: Host | None, present: Sequence[BlockDevice], wished: str | None
) -> str | None:
    """Return the name of a new disk; None while there is no host (facts/compute.md 2.7)."""
    if host is None:
        return None
    names = [row.device_name for row in present]
    used = block_devices.names_in_use(names, server)
    # libvirt names disks by itself: the guest's kernel decides in any case.
    requested = None if host.hypervisor == "libvirt" else wished
    return block_devices.choose_device_name(used, server.disk_bus, requested=requested)


def _plan_attaching(row: BlockDevice, server: Server, known: list[str]) -> AttachVolume:
    return AttachVolume(
        server_id=row.server_id,
        volume_id=row.volume_id or "",
        block_device_id=row.id,
        host=server.host or "",
        device_name=row.device_name or "",
        multiattach=row.multiattach,
        known=known,
        bus=buses.of_row(row),
    )


def _start_attaching(tx: Session, compute: Compute, who: Who, notes: AttachVolume) -> str:
    saga_id, now = str(uuid.uuid4()), compute.clock.now()
    action_id = actions.begin(tx, notes.server_id, _ATTACH, who, now, saga_id=saga_id)
    notes = replace(notes, action_id=action_id)
    saga = ATTACH_VOLUME if notes.host else ATTACH_WAITING
    return compute.sagas.start(tx, saga, notes, who=who, saga_id=saga_id)


def _start_detaching(
    tx: Session, compute: Compute, who: Who, row: BlockDevice, host: Host | None
) -> str:
    saga_id, now = str(uuid.uuid4()), compute.clock.now()
    name = disk_places.NOWHERE if host is None else host.name
    place, others = disk_places.split(tx, row.id, name)
    notes = DetachVolume(
        server_id=row.server_id,
        volume_id=row.volume_id or "",
        block_device_id=row.id,
        # Where the server's own host has it no more another one may, which lets go instead.
        host=place.host or name,
        action_id=actions.begin(tx, row.server_id, _DETACH, who, now, saga_id=saga_id),
        device_name=row.device_name,
        attachment_id=place.attachment_id,
        elsewhere=others,
        boot_index=row.boot_index,
        multiattach=row.multiattach,
        bus=buses.of_row(row),
    )
    saga = DETACH_VOLUME if notes.host else DETACH_WAITING
    return compute.sagas.start(tx, saga, notes, who=who, saga_id=saga_id)
