"""What putting a server away, and bringing it back, know between two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from mooring.compute.power.sagas.power_notes import ChangePower
from mooring.compute.scheduling.tried import Tried
from mooring.compute.volumes.moving_disks import MovingDisk

if TYPE_CHECKING:
    from typing import TypeVar

    from mooring.compute.service import Compute
    from mooring.compute.volumes.disks import Disk
    from mooring.saga.define import Run

    N = TypeVar("N", "OffloadServer", "UnshelveServer")


class OffloadServer(ChangePower, frozen=True, kw_only=True):
    """The notes of a server that leaves its host, switched off before.

    disks       its volumes; `made` is the attachment that keeps one for it while it is away
    known       attachments that the volumes had before, never to be deleted as the saga's own
    is_leaving  whether its host has begun to end its guest
    is_gone     whether that has ended
    was_off     whether it was SHELVED, so that its guest is known to be off
    """

    disks: list[MovingDisk] = field(default_factory=list[MovingDisk])
    known: list[str] = field(default_factory=list[str])
    is_leaving: bool = False
    is_gone: bool = False
    was_off: bool = False


class ShelveServer(OffloadServer, frozen=True, kw_only=True):
    """The notes of a server whose root disk becomes an image, before it may leave its host.

    image_id, name, properties, min_disk_gib  what the image is made with
    former_image                              an image that is left of an earlier time, "" for none
    offloads                                  whether the server leaves its host at once
    user_id                                   who asked
    """

    image_id: str
    name: str
    properties: dict[str, str]
    min_disk_gib: int
    former_image: str = ""
    offloads: bool = False
    user_id: str = ""


class UnshelveHere(ChangePower, frozen=True, kw_only=True):
    """The notes of a server whose guest starts again where it is; `image_id` has its disk."""

    image_id: str = ""


class UnshelveServer(Struct, frozen=True, kw_only=True):
    """The notes of a server that is given a host again.

    wished_zone, wished_host  where its user wants it, or it was made for; None is anywhere
    disks                     its volumes; `attachment_id` kept one for it and gives it to the host
    known                     as above
    image_id                  the image that has its root disk, "" for one that boots from a volume
    group_id                  the server's group, "" for none
    tried                     hosts that could not have it, before this one
    """

    server_id: str
    action_id: int
    project_id: str
    user_id: str
    wished_zone: str | None = None
    wished_host: str | None = None
    disks: list[MovingDisk] = []
    known: list[str] = []
    image_id: str = ""
    group_id: str = ""
    host: str = ""
    zone: str = ""
    tried: list[Tried] = []


def to_offload(notes: ShelveServer) -> OffloadServer:
    """Return the notes with which a server that was put away leaves its host; of one action."""
    return OffloadServer(
        server_id=notes.server_id,
        host=notes.host,
        action_id=notes.action_id,
        state="off",
        mode="hard",
        task_state="shelving_offloading",
        disks=notes.disks,
        known=notes.known,
        was_off=True,
    )


def items(notes: OffloadServer | UnshelveServer) -> list[str]:
    """Return the volumes, by their block devices."""
    return [disk.block_device_id for disk in notes.disks]


def find(notes: OffloadServer | UnshelveServer, item: str) -> MovingDisk:
    """Return the volume that an item names."""
    return next(disk for disk in notes.disks if disk.block_device_id == item)


def with_disk(notes: N, item: str, **values: Any) -> N:
    """Return the notes with what is new about one volume."""
    changed = [
        replace(disk, **values) if disk.block_device_id == item else disk for disk in notes.disks
    ]
    return replace(notes, disks=changed)


def at_host(notes: OffloadServer | UnshelveServer, item: str) -> Disk:
    """Return a volume at the host."""
    disk = find(notes, item)
    return disk.at(notes.server_id, notes.host or None, disk.attachment_id, notes.known)


def nowhere(notes: OffloadServer | UnshelveServer, item: str) -> Disk:
    """Return a volume that is at no host, by the attachment that is to keep it."""
    disk = find(notes, item)
    return disk.at(notes.server_id, None, disk.made, notes.known)


def has_left(notes: OffloadServer) -> bool:
    """Whether nothing of the server is at its host any more: its volumes wait, or are gone."""
    return notes.is_gone and all(disk.made or not disk.attachment_id for disk in notes.disks)


def say_where(notes: OffloadServer, run: Run[Compute]) -> str:
    """Return how a server is that was not put away, and what to do.

    A guest that is gone with its root disk gets that of the image by a hard reboot.
    """
    if not notes.is_leaving:
        how = "as its guest is" if run.ends_badly else "as it was"
        return f"The server was not put away, and is {how}. Shelve it again."
    if has_left(notes):
        return (
            "The server was put away, but placement may still hold its room on host "
            f"{notes.host} (mooring doctor tells), until it is unshelved or deleted."
        )
    back = (
        "reboot the server hard (openstack server reboot --hard)"
        if notes.was_off
        else "reset the server's state (openstack server set --state active)"
    )
    return (
        f"The server is on host {notes.host}, with what that did not let go of. See to that host, "
        f"then {back}, and shelve it again."
    )
