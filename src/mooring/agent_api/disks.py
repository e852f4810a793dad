"""Volumes on a host: how a connection is written, what plugging takes and gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from msgspec import Struct

from mooring.errors import Invalid

DiskBus = Literal["virtio", "scsi", "sata", "usb"]
"""How a disk is connected to its guest. Only virtio, scsi and usb come and go while it runs."""

PLACES_BY_BUS = {"sata": 6, "usb": 15}
"""What has a place on one guest's bus: ports of q35's SATA controller, ports of an xHCI. Those of
scsi and virtio are more than a guest may have disks."""

RELEASED = "released"
"""In the detail of an error: the guest has let a disk go, and the host holds on to its backend."""

STORAGE_AWAY = "storage_away"
"""In the detail of an error: the host answers, and the storage below what was asked for does not.
"""


def prefix_of(bus: str) -> str:
    """Return what the names of disks on a bus begin with: all but virtio share their letters.

    Source: facts/compute.md 2.7.
    """
    return "/dev/vd" if bus == "virtio" else "/dev/sd"


class Connection(Struct, frozen=True, kw_only=True):
    """How this host reaches a volume (facts/block_storage.md 10.2)."""

    driver_volume_type: str
    data: dict[str, Any]


def read_connection(info: Mapping[str, Any]) -> Connection:
    """Read connection_info in either form: nested, or flat as Cinder's attachments API answers it.

    Raises Invalid when it names no driver_volume_type.
    """
    kind = info.get("driver_volume_type")
    if not isinstance(kind, str) or not kind:
        raise Invalid(
            "The connection names no driver_volume_type; fetch it again by attachment id."
        )
    data = info.get("data")
    if not isinstance(data, dict):
        data = {key: value for key, value in info.items() if key != "driver_volume_type"}
    return Connection(driver_volume_type=kind, data=cast("dict[str, Any]", data))


class ConnectRequest(Struct, frozen=True, kw_only=True):
    """Body of `PUT /connections/{attachment_id}`; see `read_connection` for the forms."""

    volume_id: str
    connection: dict[str, Any]
    server_id: str = ""
    """The guest that it is for, if any."""


class Connected(Struct, frozen=True, kw_only=True):
    """A volume's backend that this host has connected. `format` is raw or qcow2, as declared.

    An image on the network has no path.
    """

    attachment_id: str
    volume_id: str
    path: str
    format: str


class DiskSpec(Struct, frozen=True, kw_only=True):
    """A volume as a disk of a guest.

    `device` ("/dev/vdb") is a wish: taken when it is free, else the next free letter is used.
    Letters are given by bus: /dev/vda.. on virtio, /dev/sda.. on the others. `boot_index` 0 boots
    first; None never boots.
    """

    volume_id: str
    attachment_id: str
    connection: dict[str, Any]
    device: str = ""
    boot_index: int | None = None
    read_only: bool = False
    """The guest may only read it, as it may when the connection's `access_mode` is `ro`."""
    shareable: bool = False
    """Several guests may have the volume at once (multiattach)."""
    bus: DiskBus = "virtio"


class GuestDisk(Struct, frozen=True, kw_only=True):
    """One volume of a guest, read from the guest's definition."""

    volume_id: str
    attachment_id: str
    device: str
    """With its directory: /dev/vdb."""
    path: str = ""
    format: str = ""
    boot_index: int | None = None
    read_only: bool = False
    live: bool = False
    """The running guest has it."""
    persistent: bool = True
    """The definition that the next start uses has it."""
    bus: DiskBus = "virtio"


class Unplugged(Struct, frozen=True):
    """Answer of a DELETE that names an attachment: neither guest nor host holds on to it.

    An agent of the release before knows no attachment here and answers nothing.
    """

    attachment_id: str


class DiskSizeRequest(Struct, frozen=True):
    """Body of `PUT /servers/{server_id}/disks/{volume_id}/size`."""

    size_bytes: int


class DiskSize(Struct, frozen=True, kw_only=True):
    """How big a disk is: as its guest sees it (or will, once started), and as its file says."""

    guest_bytes: int
    image_bytes: int


class SeenDisk(Struct, frozen=True, kw_only=True):
    """One guest's volume and its sizes, as an inventory lists it."""

    server_id: str
    volume_id: str
    size: DiskSize


class UnreadDisk(Struct, frozen=True, kw_only=True):
    """One guest's volume whose sizes could not be read, and why, as an inventory lists it."""

    server_id: str
    volume_id: str
    why: str


class UnreadConnection(Struct, frozen=True, kw_only=True):
    """An attachment whose record the host cannot read, and why, as an inventory lists it.

    What volume is connected by it, and which guests have that, is not known meanwhile.
    """

    attachment_id: str
    why: str
