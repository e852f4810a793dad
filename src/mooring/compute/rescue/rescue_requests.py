"""What a rescue asks for, and what the other services say about it (facts/compute.md 1.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.agent_api.disks import DiskBus
from mooring.agent_api.servers import RescueDevice
from mooring.clients.placement import has_trait
from mooring.compute.images import fitting
from mooring.compute.tables import BlockDevice, Host, Server
from mooring.compute.volumes import buses
from mooring.errors import Conflict, Invalid

if TYPE_CHECKING:
    from mooring.clients.image import Image
    from mooring.compute.service import Compute
    from mooring.who import Who

TRAIT = "COMPUTE_RESCUE_BFV"
"""The trait of a host that can rescue servers, also one that boots from a volume."""
_DEVICE, _BUS = "hw_rescue_device", "hw_rescue_bus"
_DEVICES: dict[str, tuple[RescueDevice, str]] = {
    "disk": ("disk", "virtio"),
    "cdrom": ("cdrom", "sata"),
}
"""By `hw_rescue_device`: the device, and the bus of an image that names none."""
_BEFORE = frozenset({("disk", "virtio"), ("disk", "scsi")})
"""What every agent gives that knows of rescues at all."""


class Plan(Struct, frozen=True):
    """What a server is to boot from, and how; the words are those of `RescueDisk`."""

    image_id: str
    device: RescueDevice
    bus: DiskBus
    is_stable: bool


class Place(Struct, frozen=True):
    """A server, where it is, and what it has."""

    server: Server
    host: Host
    rows: list[BlockDevice]


async def gather(compute: Compute, who: Who, image_id: str | None, place: Place) -> Plan:
    """Ask the other services, and check what they say.

    Raises Invalid, Conflict and Forbidden, before anything changes.
    """
    server = place.server
    wanted = image_id or server.image_id
    if not wanted:
        raise Invalid(
            f"Server {server.id} boots from a volume and has no image to be rescued with. Nothing "
            "was changed; name one by rescue_image_ref."
        )
    image = await fitting.find(compute, who, wanted, "rescue")
    plan = _read(image)
    if not server.image_id and not plan.is_stable:
        raise Invalid(
            f"Image {image.id} has neither {_DEVICE} nor {_BUS}, and server {server.id}, which "
            "boots from a volume, is rescued with no other. Nothing was changed; set one of them."
        )
    _check_host(place.host, server)
    _check_bus(place.host, server, plan)
    buses.check_places([plan.bus, *buses.of_server(server, place.rows)])
    root_gib = await _check_volumes(compute, who, place.rows)
    fitting.check(server, image, None if server.image_id else root_gib)
    return plan


def check_version(server: Server, *, may_boot_from_volume: bool) -> None:
    """Raise Invalid for a server that boots from a volume where the version does not know it."""
    if not server.image_id and not may_boot_from_volume:
        raise Invalid(
            f"Cannot rescue a volume-backed instance: server {server.id} boots from a volume, and "
            "that needs compute API version 2.87. Nothing was changed."
        )


def _read(image: Image) -> Plan:
    """Return how a guest is rescued with an image. Raises Invalid for what no host here does."""
    if not image.size_bytes:
        raise Invalid(
            f"Image {image.id} has no data of its own, as one of volumes has. Nothing was changed; "
            "use another image."
        )
    device, bus = image.properties.get(_DEVICE), image.properties.get(_BUS)
    kind, usual = _DEVICES.get(device or "disk", (None, "virtio"))
    if not device and not bus:
        # Its disk is the first of all: as one of a server that is made of this image.
        usual = buses.of_image(image.properties)
    where = buses.BUSES.get(bus or usual)
    if kind is None or where is None or (kind, where) == ("cdrom", "virtio"):
        raise Invalid(
            f"Image {image.id} asks for a rescue device {device or 'disk'} on {bus or usual}, and "
            f"guests are rescued with a disk on {', '.join(buses.BUSES)}, or a cdrom on the same "
            f"but for virtio. Nothing was changed; set {_DEVICE} and {_BUS}."
        )
    return Plan(image.id, kind, where, is_stable=bool(device or bus))


def _check_host(host: Host, server: Server) -> None:
    """Raise Invalid, or Conflict, for a host whose agent knows nothing of rescues."""
    if has_trait(host.traits, TRAIT):
        return
    lacks = f"host {host.name} lacks the trait {TRAIT}; upgrade its agent first"
    if server.image_id:
        raise Conflict(f"Server {server.id} was not rescued: {lacks}.")
    raise Invalid(
        f"Host unable to rescue a volume-backed instance: {lacks}. Server {server.id} was not "
        "changed."
    )


def _check_bus(host: Host, server: Server, plan: Plan) -> None:
    """Raise Conflict for a host whose agent cannot rescue with such a device."""
    trait = buses.trait_of(plan.bus)
    if (plan.device, plan.bus) in _BEFORE or has_trait(host.traits, trait):
        return
    raise Conflict(
        f"Server {server.id} was not rescued: image {plan.image_id} asks for a {plan.device} on "
        f"{plan.bus}, and host {host.name} lacks the trait {trait}. Upgrade its agent first, or "
        "use an image for a disk on virtio."
    )


async def _check_volumes(compute: Compute, who: Who, rows: list[BlockDevice]) -> int:
    """See that all volumes are in use; return the size of the one that is booted from, 0 for none.

    Raises Conflict.
    """
    root_gib = 0
    for row in rows:
        if not row.volume_id or row.state != "attached":
            continue
        volume = await compute.volumes.show(who, row.volume_id)
        if volume.status != "in-use":
            raise Conflict(
                f"Invalid volume: volume {volume.id} of the server is {volume.status}; a rescue "
                "needs it in-use. Nothing was changed."
            )
        root_gib = volume.size_gib if row.boot_index == 0 else root_gib
    return root_gib
