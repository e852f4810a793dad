"""What the other services say about what a request for new servers names (facts/compute.md 3.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.clients.snapshots import SnapshotClient
from mooring.clients.volume import ATTACHMENTS_SINCE
from mooring.compute.create import block_devices, image_devices
from mooring.compute.create.requests import Material
from mooring.errors import Forbidden, Invalid, NotFound

if TYPE_CHECKING:
    from mooring.clients.image import Image
    from mooring.clients.snapshots import Snapshot
    from mooring.clients.volume import Volume
    from mooring.compute.create.block_devices import NewBlockDevice
    from mooring.compute.create.requests import NewServer
    from mooring.compute.service import Compute
    from mooring.who import Who


async def gather(compute: Compute, who: Who, request: NewServer) -> tuple[NewServer, Material]:
    """Return the request with the disks that its image names, and what it all stands on.

    Raises Invalid for what is not there, or cannot be used, Forbidden for too many disks.
    """
    image = await _show_image(compute, who, request.image_id) if request.image_id else None
    request = replace(request, block_devices=_disks_of(request, image))
    # Each disk may mean calls to other services, and rows in one transaction: count them first.
    most = compute.settings.max_disks
    block_devices.check_total(request.block_devices, request.image_id, most)
    material = Material(image)
    for item in request.block_devices:
        if item.source_type == "image" and item.uuid and item.uuid != request.image_id:
            material.images[item.uuid] = await _show_image(compute, who, item.uuid)
            _check_data(material.images[item.uuid])
        elif item.source_type == "volume" and item.uuid:
            material.volumes[item.uuid] = await _show_volume(compute, who, item.uuid)
            there = await compute.volumes.find_attachments(who, volume_id=item.uuid)
            material.known[item.uuid] = [found.id for found in there or ()]
            if there is None:
                material = replace(material, old_calls=True)
        elif item.source_type == "snapshot" and item.uuid:
            material.snapshots[item.uuid] = await _show_snapshot(compute, who, item.uuid)
    if not material.volumes and any(_is_new(item) for item in request.block_devices):
        newest = await compute.volumes.find_newest_version(None)
        material = replace(material, old_calls=newest < ATTACHMENTS_SINCE)
    disks = [_sized(item, material) for item in request.block_devices]
    if image is not None and any(_is_made_of(item, image) for item in disks):
        _check_data(image)
    properties = await _find_properties(compute, who, material, disks)
    return replace(request, block_devices=disks), replace(material, properties=properties)


async def _find_properties(
    compute: Compute, who: Who, material: Material, disks: list[NewBlockDevice]
) -> dict[str, str]:
    """Return the properties of the image, also of the one that a root volume was, or is made of."""
    if material.image is not None:
        return image_devices.without_own(material.image.properties)
    root = next((item for item in disks if block_devices.is_root(item)), None)
    if root is None or not root.uuid:
        return {}
    if image := material.images.get(root.uuid):
        return image_devices.without_own(image.properties)
    if snapshot := material.snapshots.get(root.uuid):
        return await _read_metadata(compute, who, snapshot.volume_id)
    volume = material.volumes.get(root.uuid)
    return dict(volume.volume_image_metadata) if volume else {}


async def _read_metadata(compute: Compute, who: Who, volume_id: str) -> dict[str, str]:
    """Return what the volume of a snapshot was made of; nothing where it went to somebody else.

    A transfer may leave the snapshots behind, and servers are made of them all the same.
    """
    try:
        return dict((await compute.volumes.show(who, volume_id)).volume_image_metadata)
    except (NotFound, Forbidden):
        return {}


def _disks_of(request: NewServer, image: Image | None) -> list[NewBlockDevice]:
    """Return the disks of the request and of its image, without those that are not wanted."""
    disks = request.block_devices
    if image is not None:
        disks = image_devices.merge(image_devices.of_image(image), disks)
    return [item for item in disks if not item.no_device]


def _is_new(item: NewBlockDevice) -> bool:
    return item.destination_type == "volume" and item.source_type != "volume"


def _is_made_of(item: NewBlockDevice, image: Image) -> bool:
    return item.source_type == "image" and item.uuid == image.id


def _sized(item: NewBlockDevice, material: Material) -> NewBlockDevice:
    """Return a disk as large as its snapshot, where the request does not say how large."""
    snapshot = material.snapshots.get(item.uuid or "") if item.source_type == "snapshot" else None
    if snapshot is None:
        return item
    size_gib = item.volume_size_gib or snapshot.size_gib
    if size_gib < snapshot.size_gib:
        raise Invalid(
            f"Block Device Mapping is Invalid: snapshot {snapshot.id} has {snapshot.size_gib} GiB, "
            f"which is more than volume_size {size_gib}. Nothing was created."
        )
    return replace(item, volume_size_gib=size_gib)


def _check_data(image: Image) -> None:
    if image.has_no_data:
        raise Invalid(
            f"Image {image.id} has no data, but names snapshots of volumes. Nothing was created; "
            "ask for it by imageRef alone."
        )


async def _show_image(compute: Compute, who: Who, image_id: str) -> Image:
    try:
        image = await compute.images.show(who, image_id)
    except NotFound as error:
        raise Invalid(f"Can not find requested image {image_id}. Nothing was created.") from error
    if not image.is_active:
        raise Invalid(f"Image {image_id} is not active. Nothing was created.")
    return image


async def _show_volume(compute: Compute, who: Who, volume_id: str) -> Volume:
    try:
        return await compute.volumes.show(who, volume_id)
    except NotFound as error:
        raise Invalid(
            f"Block Device Mapping is Invalid: failed to get volume {volume_id}. "
            "Nothing was created."
        ) from error


async def _show_snapshot(compute: Compute, who: Who, snapshot_id: str) -> Snapshot:
    try:
        found = await SnapshotClient(compute.volumes.session).show(who, snapshot_id)
    except (NotFound, Forbidden) as error:
        raise Invalid(
            f"Block Device Mapping is Invalid: failed to get snapshot {snapshot_id}. "
            "Nothing was created.",
            private=error.private,
        ) from error
    if found.status != "available":
        raise Invalid(
            f"Block Device Mapping is Invalid: snapshot {snapshot_id} is {found.status}, not "
            "available. Nothing was created."
        )
    return found
