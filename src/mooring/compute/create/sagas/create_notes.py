"""What the creation of a server knows between two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from mooring.agent_api.disks import DiskBus
from mooring.compute.scheduling.tried import Tried
from mooring.compute.volumes.disks import Disk
from mooring.compute.volumes.old_calls import BY_OLD_CALLS, named

if TYPE_CHECKING:
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


class NewDisk(Struct, frozen=True, kw_only=True):
    """A volume of the new server.

    `source` is volume (there already), image, snapshot or blank (to be made). `known`: attachments
    of an existing volume, or volumes of our name, that were there before and are never deleted.
    `delete_too`: it goes with its server. `beside`: the volume in whose pool it will lie.
    `is_filled`: an existing one was getting its data from an image when this was asked for.
    """

    block_device_id: str
    device_name: str
    source: str
    boot_index: int | None = None
    source_id: str | None = None
    size_gib: int = 0
    volume_type: str | None = None
    zone: str | None = None
    multiattach: bool = False
    delete_too: bool = False
    known: list[str] = []
    volume_id: str = ""
    attachment_id: str = ""
    beside: str = ""
    is_filled: bool = False
    bus: DiskBus = "virtio"


class CreateServer(Struct, frozen=True, kw_only=True):
    """The notes. `placed`: the server was told its host; `tried`: those that it had before.

    `old_calls`: there are no attachments to give its volumes by.
    """

    server_id: str
    project_id: str
    user_id: str
    action_id: int
    image_id: str = ""
    disks: list[NewDisk] = []
    wished_zone: str | None = None
    wished_host: str | None = None
    traits: list[str] = []
    group_id: str = ""
    host: str = ""
    zone: str = ""
    placed: bool = False
    tried: list[Tried] = []
    old_calls: bool = False


def existing(notes: CreateServer) -> list[str]:
    """Return the block devices whose volumes are there already."""
    return [disk.block_device_id for disk in notes.disks if disk.source == "volume"]


def to_make(notes: CreateServer) -> list[str]:
    """Return the block devices whose volumes are to be made."""
    return [disk.block_device_id for disk in notes.disks if disk.source != "volume"]


def every(notes: CreateServer) -> list[str]:
    """Return the block devices that are volumes, in boot order."""
    return [disk.block_device_id for disk in notes.disks]


def find(notes: CreateServer, item: str) -> NewDisk:
    """Return the disk of a block device."""
    return next(disk for disk in notes.disks if disk.block_device_id == item)


def with_disk(notes: CreateServer, item: str, **values: Any) -> CreateServer:
    """Return the notes with what is new about one disk."""
    disks = [
        replace(disk, **values) if disk.block_device_id == item else disk for disk in notes.disks
    ]
    return replace(notes, disks=disks)


def guest_disk(notes: CreateServer, item: str) -> Disk:
    """Return a disk at the host of the server, once there is one."""
    disk = find(notes, item)
    return Disk(
        server_id=notes.server_id,
        volume_id=disk.volume_id,
        host=notes.host or None,
        attachment_id=named(disk.attachment_id),
        device_name=disk.device_name,
        boot_index=disk.boot_index,
        multiattach=disk.multiattach,
        known=disk.known,
        # What is made for the server was waited for before it was reserved.
        has_data=disk.source != "volume",
        old_calls=notes.old_calls,
        reserved=disk.attachment_id == BY_OLD_CALLS,
        bus=disk.bus,
    )


def say_where(notes: CreateServer, run: Run[Compute]) -> str:
    """Return what is left of a new server that was not taken back, and what to do.

    Of one that was nothing is left, and why it failed stands first, as clients look for it.
    """
    if not run.ends_badly:
        return ""
    return (
        f"The server was not built, and host {notes.host} may still have its guest or its volumes. "
        "Delete it, which frees them."
    )
