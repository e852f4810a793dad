"""New servers: what a user may ask for (facts/compute.md 3, 9.5)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.create import block_devices, gathering
from mooring.compute.create.new_rows import Batch, build
from mooring.compute.create.requests import Created, Material
from mooring.compute.drives import config_drives
from mooring.compute.flavors import flavors
from mooring.compute.groups import groups
from mooring.compute.hosts import hosts
from mooring.compute.quotas import quota
from mooring.compute.volumes import buses, devices, old_calls
from mooring.errors import Conflict, Forbidden, Invalid, NotFound, OverQuota

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.config_drives import DriveBus
    from mooring.clients.image import Image
    from mooring.compute.create.requests import NewServer
    from mooring.compute.service import Compute
    from mooring.compute.tables import Flavor
    from mooring.who import Who


async def create(compute: Compute, who: Who, request: NewServer) -> Created:
    """Check everything, write rows and sagas, and wait until volumes that are named are reserved.

    Raises Invalid, Forbidden, OverQuota as POST /servers does; then nothing is left behind.
    """
    request, material = await gathering.gather(compute, who, request)
    _check_count(request)
    reservation_id = f"r-{uuid.uuid4().hex[:8]}"

    def begin(tx: Session) -> list[str]:
        batch = _plan(tx, compute, who, request, material)
        batch = replace(batch, reservation_id=reservation_id)
        made = [build(tx, compute, batch, index) for index in range(batch.count)]
        if request.group_id:
            groups.join(tx, who, request.group_id, made)
        return made

    try:
        saga_ids = await compute.sagas.submit(begin)
    except NotFound as error:
        raise Invalid(error.public, private=error.private) from error
    if material.volumes:
        await compute.sagas.answered(saga_ids[0])
    return Created(saga_ids, reservation_id)


def _check_count(request: NewServer) -> None:
    names_volume = any(item.source_type == "volume" for item in request.block_devices)
    if request.max_count > 1 and names_volume:
        raise Invalid(
            "Multiple server boot is not supported with a volume that exists. Nothing was created; "
            "make one server at a time."
        )


def _plan(tx: Session, compute: Compute, who: Who, request: NewServer, material: Material) -> Batch:
    """Check the request against what is there, under the lock of the project's quota."""
    flavor = flavors.visible(tx, who, request.flavor_id)
    _check_flavor(flavor)
    _check_place(tx, compute, request, material)
    _check_volumes(tx, request, material)
    wanted = block_devices.Wanted(
        image_id=request.image_id,
        image_min_disk_gib=material.image.min_disk_gib if material.image else 0,
        disk_gib=flavor.disk_gib,
        ephemeral_gib=flavor.ephemeral_gib,
        swap_mib=flavor.swap_mib,
        disk_bus=buses.of_image(material.properties),
        drive_bus=_find_drive_bus(compute, request, material),
    )
    most = compute.settings.max_disks
    block_devices.check_total(request.block_devices, wanted.image_id, most, swap=wanted.has_swap)
    disks = block_devices.plan(request.block_devices, wanted, material.volumes)
    if material.image is not None:
        _check_image(request, flavor, material.image, disks[0])
    by_old_calls = material.old_calls or hosts.are_too_old(tx)
    if by_old_calls:
        _check_old_calls(material)
    quota.check_metadata(tx, who.project_id, len(request.metadata))
    count = _fit(tx, who, request, flavor)
    return Batch(who, request, material, flavor, disks, count, "", old_calls=by_old_calls)


def _find_drive_bus(compute: Compute, request: NewServer, material: Material) -> DriveBus | None:
    """Return what the config drive is to be on, None for a server without. Raises Invalid."""
    bus = buses.of_drive(material.properties)
    forced = compute.settings.force_config_drive
    asked = request.config_drive or config_drives.asks_for_one(material.properties)
    return bus if forced or asked else None


def _fit(tx: Session, who: Who, request: NewServer, flavor: Flavor) -> int:
    """Return how many of the servers the quota allows, at least `min_count`. Raises OverQuota."""
    for count in range(request.max_count, request.min_count, -1):
        try:
            quota.check(tx, who.project_id, _usage(flavor, count))
        except OverQuota:
            continue
        return count
    quota.check(tx, who.project_id, _usage(flavor, request.min_count))
    return request.min_count


def _usage(flavor: Flavor, count: int) -> quota.Usage:
    return quota.Usage(count, count * flavor.vcpus, count * flavor.memory_mib)


def _check_flavor(flavor: Flavor) -> None:
    if flavor.disabled:
        raise Invalid(f"Flavor {flavor.id} is disabled. Nothing was created.")
    if flavor.ephemeral_gib:
        raise Invalid(
            f"Flavor {flavor.name} has ephemeral disks, which are not built. Nothing was created; "
            "choose a flavor without them."
        )


def _check_image(
    request: NewServer, flavor: Flavor, image: Image, root: block_devices.NewBlockDevice
) -> None:
    """See that an image fits, of whose disk the flavor says nothing where the root is a volume."""
    if image.min_ram_mib > flavor.memory_mib:
        raise Invalid("Flavor's memory is too small for requested image. Nothing was created.")
    if root.destination_type == "volume":
        return
    if flavor.disk_gib == 0 and not request.zero_disk_allowed:
        raise Forbidden("Only volume-backed servers are allowed for flavors with zero disk.")
    if flavor.disk_gib and image.min_disk_gib > flavor.disk_gib:
        raise Invalid("Flavor's disk is too small for requested image. Nothing was created.")


def _check_place(tx: Session, compute: Compute, request: NewServer, material: Material) -> None:
    zone = request.availability_zone
    if zone not in {None, compute.settings.default_zone, *hosts.zones(tx)}:
        raise Invalid(
            "The requested availability zone is not available. Nothing was created; "
            "openstack availability zone list --compute names those that there are."
        )
    _check_host(tx, request)
    if compute.settings.cross_zone_attach:
        return
    wished = zone or compute.settings.default_zone
    for volume in material.volumes.values():
        if volume.availability_zone not in {None, wished}:
            raise Invalid(
                f"The volume {volume.id} and the server are not in the same availability zone: "
                f"{volume.availability_zone} and {wished}. Nothing was created."
            )


def _check_host(tx: Session, request: NewServer) -> None:
    if request.host is None:
        return
    host, zone = hosts.find(tx, request.host), request.availability_zone
    if host is None:
        raise Invalid(f"Compute host {request.host} could not be found. Nothing was created.")
    if zone not in {None, host.zone}:
        raise Invalid(
            f"Compute host {host.name} is in availability zone {host.zone}, not in {zone}. "
            "Nothing was created."
        )


def _check_old_calls(material: Material) -> None:
    """Raise Conflict for what only attachments can do (specs 001)."""
    shared = [volume.id for volume in material.volumes.values() if volume.multiattach]
    if shared:
        raise Conflict(
            f"Volume {shared[0]} is multiattach, and {old_calls.CLOSED}. Nothing was created."
        )


def _check_volumes(tx: Session, request: NewServer, material: Material) -> None:
    for volume in material.volumes.values():
        if volume.multiattach and not request.multiattach_allowed:
            raise Invalid(
                f"Volume {volume.id} is multiattach, which needs compute API version 2.60. "
                "Nothing was created."
            )
        if not volume.multiattach and devices.of_volume(tx, volume.id):
            raise Invalid(f"Volume {volume.id} is attached to a server. Nothing was created.")
