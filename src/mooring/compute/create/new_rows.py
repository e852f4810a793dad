"""The rows and the saga of each server that one request makes."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import insert

from mooring.compute.actions import actions
from mooring.compute.create import block_devices
from mooring.compute.create.sagas.create_notes import CreateServer, NewDisk
from mooring.compute.create.sagas.create_server import CREATE_SERVER
from mooring.compute.drives import config_drives
from mooring.compute.flavors import sizes
from mooring.compute.keypairs import keypairs
from mooring.compute.tables import BlockDevice, Flavor, Server, ServerMetadata, ServerTag
from mooring.compute.volumes import buses, devices
from mooring.store.loaded import Adding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy.orm import Session

    from mooring.compute.create.block_devices import NewBlockDevice
    from mooring.compute.create.requests import Material, NewServer
    from mooring.compute.service import Compute
    from mooring.who import Who

TAGGING = "COMPUTE_DEVICE_TAGGING"
"""The trait of a host that shows device tags to its guests."""
_add = Adding(Server)


class Batch(Struct, frozen=True):
    """The servers of one request: how many, of which flavor, with which disks (the root first)."""

    who: Who
    request: NewServer
    material: Material
    flavor: Flavor
    disks: Sequence[NewBlockDevice]
    count: int
    reservation_id: str
    old_calls: bool = False
    """Whether there are no attachments to give its volumes by (specs 001)."""


def build(tx: Session, compute: Compute, batch: Batch, index: int) -> str:
    """Write one server and start its saga; return the id that both have."""
    server_id, now = str(uuid.uuid4()), compute.clock.now()
    row = _server(tx, compute, batch, server_id)
    row.launch_index = index
    row.name += f"-{index + 1}" if batch.count > 1 else ""
    row.hostname = batch.request.hostname or hostname_of(row.name, server_id)
    _add(tx, row)
    _add_labels(tx, batch.request, server_id)
    volumes = [_device(tx, compute, batch, item, server_id) for item in batch.disks]
    action_id = actions.begin(tx, server_id, "create", batch.who, now, saga_id=server_id)
    notes = CreateServer(
        server_id=server_id,
        project_id=row.project_id,
        user_id=row.user_id,
        action_id=action_id,
        image_id=row.image_id,
        disks=[volume for volume in volumes if volume is not None],
        wished_zone=batch.request.availability_zone,
        wished_host=batch.request.host,
        traits=_traits(batch, has_drive=row.config_drive),
        group_id=batch.request.group_id,
        old_calls=batch.old_calls,
    )
    return compute.sagas.start(tx, CREATE_SERVER, notes, who=batch.who, saga_id=server_id)


def _traits(batch: Batch, *, has_drive: bool) -> list[str]:
    """Return what the host must be able to do for the disks, and for the config drive.

    The drive tells of tags; without one the host needs another way to tell them.
    """
    shared = any(volume.multiattach for volume in batch.material.volumes.values())
    tagged = any(item.tag for item in batch.disks) and not has_drive
    needed = [name for name, needed in ((TAGGING, tagged), (devices.SHARING, shared)) if needed]
    on = buses.traits_of(*(buses.BUSES[item.disk_bus] for item in batch.disks if item.disk_bus))
    return [*needed, *on, *config_drives.traits_of(has_drive=has_drive)]


def hostname_of(name: str, server_id: str) -> str:
    """Return the host name that a server's name gives: letters, digits, hyphens and dots."""
    text = re.sub(r"[\s_]+", "-", name.strip())
    text = re.sub(r"[^a-zA-Z0-9.-]+", "", text).strip(".-").lower()[:63].rstrip(".-")
    return text or f"server-{server_id}"


def _server(tx: Session, compute: Compute, batch: Batch, server_id: str) -> Server:
    request, who, flavor, now = batch.request, batch.who, batch.flavor, compute.clock.now()
    key = keypairs.visible(tx, who.user_id, request.key_name) if request.key_name else None
    root, properties = batch.disks[0], batch.material.properties
    forced = compute.settings.force_config_drive or config_drives.asks_for_one(properties)
    return Server(
        id=server_id,
        project_id=who.project_id,
        user_id=who.user_id,
        name=request.name,
        description=request.description,
        vm_state="building",
        task_state="scheduling",
        power_state=0,
        pinned_zone=request.availability_zone,
        image_id=request.image_id if root.destination_type == "local" else "",
        image_properties=properties,
        network=request.network,
        key_name=request.key_name,
        public_key=key.public_key if key else None,
        user_data=request.user_data,
        config_drive=request.config_drive or forced,
        disk_config=request.disk_config,
        access_ip_v4=request.access_ip_v4,
        access_ip_v6=request.access_ip_v6,
        root_device_name=root.device_name,
        **_buses(root, properties),
        reservation_id=batch.reservation_id,
        scheduler_hints=request.scheduler_hints,
        trusted_certificates=request.trusted_certificates,
        created_at=now,
        updated_at=now,
        **sizes.of_flavor(flavor).columns(),
    )


def _buses(root: NewBlockDevice, properties: dict[str, str]) -> dict[str, str]:
    """Return the columns that say what a server's disks are on."""
    usual = buses.of_image(properties)
    return {
        "root_bus": block_devices.bus_of(root, usual),
        "disk_bus": usual,
        "cdrom_bus": buses.of_drive(properties),
    }


def _add_labels(tx: Session, request: NewServer, server_id: str) -> None:
    labels = [
        {"server_id": server_id, "key": key, "value": value}
        for key, value in request.metadata.items()
    ]
    if labels:
        tx.execute(insert(ServerMetadata), labels)
    tags = [{"server_id": server_id, "tag": tag} for tag in dict.fromkeys(request.tags)]
    if tags:
        tx.execute(insert(ServerTag), tags)


def _device(
    tx: Session, compute: Compute, batch: Batch, item: NewBlockDevice, server_id: str
) -> NewDisk | None:
    """Write one block device; return it as the saga's notes have it, None for one on the host."""
    snapshot = batch.material.snapshots.get(item.uuid or "")
    volume = batch.material.volumes.get(item.uuid or "")
    row = devices.add(tx, _block_device(compute, batch, item, server_id))
    if item.destination_type == "local":
        return None
    return NewDisk(
        block_device_id=row.id,
        device_name=item.device_name or "",
        source=item.source_type,
        boot_index=item.boot_index,
        source_id=row.source_id,
        size_gib=item.volume_size_gib or 0,
        volume_type=item.volume_type,
        zone=None if compute.settings.cross_zone_attach else batch.request.availability_zone,
        multiattach=row.multiattach,
        delete_too=row.delete_on_termination,
        known=batch.material.known.get(row.volume_id or "", []),
        volume_id=row.volume_id or "",
        beside=snapshot.volume_id if snapshot else "",
        is_filled=volume is not None and volume.status == "downloading",
        bus=buses.of_row(row),
    )


def _block_device(
    compute: Compute, batch: Batch, item: NewBlockDevice, server_id: str
) -> BlockDevice:
    volume_id = item.uuid if item.source_type == "volume" else None
    volume, now = batch.material.volumes.get(volume_id or ""), compute.clock.now()
    return BlockDevice(
        id=str(uuid.uuid4()),
        server_id=server_id,
        state="reserving",
        source_type=item.source_type,
        destination_type=item.destination_type,
        boot_index=item.boot_index,
        device_name=item.device_name,
        source_id=item.uuid if item.source_type in {"image", "snapshot"} else None,
        volume_id=volume_id,
        volume_size_gib=item.volume_size_gib,
        volume_type=item.volume_type,
        multiattach=volume.multiattach if volume else False,
        delete_on_termination=item.delete_on_termination,
        tag=item.tag,
        guest_format=item.guest_format,
        device_type=item.device_type,
        disk_bus=item.disk_bus,
        created_at=now,
        updated_at=now,
    )
