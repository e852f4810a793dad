"""What the disks of a server are connected by: its mapping says it, else its image, else virtio.

The words are those of `hw_disk_bus`, `hw_scsi_model` and `hw_cdrom_bus` of images, and of
`disk_bus` in `block_device_mapping_v2` (facts/compute.md 2.7, 3.1). Guests are q35 machines: what
was IDE is at their SATA controller, as libvirt has it. A bus that was found stays with its disk,
wherever that goes: in `block_devices.disk_bus` of a volume, in `servers.root_bus` of a root disk on
the host.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, cast

from mooring.agent_api.disks import PLACES_BY_BUS
from mooring.errors import Conflict, Forbidden, Invalid

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mooring.agent_api.config_drives import DriveBus
    from mooring.agent_api.disks import DiskBus
    from mooring.compute.tables import BlockDevice, Server

BUSES: dict[str, DiskBus] = {
    "virtio": "virtio",
    "scsi": "scsi",
    "sata": "sata",
    "ide": "sata",
    "usb": "usb",
}
DRIVE_BUSES: dict[str, DriveBus] = {"scsi": "scsi", "sata": "sata", "ide": "sata", "usb": "usb"}
"""By `hw_cdrom_bus`: where a config drive is, which is a CD-ROM. There is none on virtio."""
TRAIT = "CUSTOM_COMPUTE_DISK_BUSES"
"""What agents tell that heed the bus of each disk. Those of the release before tell the buses, too:
by them they rescue, and what a server's own disks ask for they do not hear.
"""
_BUS, _MODEL, _CDROM = "hw_disk_bus", "hw_scsi_model", "hw_cdrom_bus"
_SCSI_MODEL = "virtio-scsi"
_OFF = frozenset({"stopped", "shelved", "shelved_offloaded"})
"""States in which no guest runs, and none has its memory saved."""


def of_image(properties: Mapping[str, Any]) -> DiskBus:
    """Return what an image asks for, virtio where it says nothing. Raises Invalid."""
    word = str(properties.get(_BUS) or "virtio")
    if (bus := BUSES.get(word)) is None:
        raise Invalid(
            f"The image asks by {_BUS} for disks on {word[:64]}, and disks are on one of "
            f"{', '.join(BUSES)}. Nothing was changed; set {_BUS} to one of them."
        )
    model = str(properties.get(_MODEL) or _SCSI_MODEL)
    if bus == "scsi" and model != _SCSI_MODEL:
        raise Invalid(
            f"The image asks by {_MODEL} for {model[:64]}, and the one SCSI controller there "
            f"is, is {_SCSI_MODEL}. Nothing was changed; set {_MODEL} to that, or leave it out."
        )
    return bus


def of_drive(properties: Mapping[str, Any]) -> DriveBus:
    """Return where an image wants a config drive, scsi where it says nothing. Raises Invalid."""
    word = str(properties.get(_CDROM) or "scsi")
    if (bus := DRIVE_BUSES.get(word)) is None:
        raise Invalid(
            f"The image asks by {_CDROM} for a config drive on {word[:64]}, and these are on one "
            f"of {', '.join(DRIVE_BUSES)}. Nothing was changed; set {_CDROM} to one of them."
        )
    return bus


def of_row(row: BlockDevice) -> DiskBus:
    """Return what a volume of a server is on."""
    return cast("DiskBus", row.disk_bus or "virtio")


def later(server: Server) -> DiskBus:
    """Return what a volume is on that comes to a server later."""
    return cast("DiskBus", server.disk_bus)


def traits_of(*buses: str) -> list[str]:
    """Return what a host must be able to do for disks on these; each one is for virtio."""
    others = {bus for bus in buses if bus != "virtio"}
    return sorted([*map(trait_of, others), TRAIT]) if others else []


def trait_of(bus: str) -> str:
    """Return what a host tells that has disks on a bus, be it for rescues alone."""
    return f"COMPUTE_STORAGE_BUS_{bus.upper()}"


def traits_of_server(server: Server) -> list[str]:
    """Return the same for what a server has beside its volumes.

    Agents of before know of no bus, and give every config drive on scsi.
    """
    drive = server.cdrom_bus if server.config_drive and server.cdrom_bus != "scsi" else "virtio"
    return traits_of(server.disk_bus, server.root_bus, drive)


def check_places(buses: Iterable[str]) -> None:
    """Raise Forbidden for more disks on one bus than have a place there."""
    every = Counter(buses)
    for bus, places in PLACES_BY_BUS.items():
        if every[bus] > places:
            raise Forbidden(
                f"The maximum allowed number of disk devices ({places}) on {bus} to attach to a "
                "single instance has been exceeded: the config drive and the swap disk count, too. "
                "Nothing was changed; use fewer, or another bus."
            )


def of_server(server: Server, rows: Iterable[BlockDevice]) -> list[str]:
    """Return what each disk of a server is on, its config drive among them."""
    swap = [server.disk_bus] if server.swap_mib else []
    drive = [server.cdrom_bus] if server.config_drive else []
    own = [server.root_bus] if server.image_id else []
    return [*own, *swap, *drive, *(of_row(row) for row in rows if row.volume_id)]


def check_hot(server: Server, bus: DiskBus, volume_id: str) -> None:
    """Raise Conflict for a disk that neither comes to a running guest nor goes from it."""
    if bus == "sata" and server.vm_state not in _OFF:
        raise Conflict(
            f"The disks of instance {server.id} are on sata, where none comes or goes while the "
            f"guest runs or its memory is saved; it is {server.vm_state}. Volume {volume_id} was "
            "left as it is; stop the server first."
        )
