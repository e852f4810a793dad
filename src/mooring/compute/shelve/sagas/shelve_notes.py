"""What putting a server away, and bringing it back, know between two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from mooring.compute.power.sagas.power_notes import ChangePower
from mooring.compute.scheduling.tried import Tried
from mooring.compute.volumes.disks import Disk

if TYPE_CHECKING:
    from typing import TypeVar

    from mooring.compute.tables import BlockDevice

    N = TypeVar("N", "OffloadServer", "UnshelveServer")


class ShelvedDisk(Struct, frozen=True, kw_only=True):
    """A volume of the server.

    attachment_id  at the host; while the server is put away the one that keeps the volume for it
    made           an empty one that is to take its place
    """

    block_device_id: str
    volume_id: str
    attachment_id: str
    device_name: str | None = None
    boot_index: int | None = None
    multiattach: bool = False
    made: str = ""

    def named(self, device_name: str) -> ShelvedDisk:
        """Return the same with a name in the guest."""
        return replace(self, device_name=device_name)


class OffloadServer(ChangePower, frozen=True, kw_only=True):
    """The notes of a server that leaves its host, switched off before.

    known     attachments that the volumes had before, never to be deleted as the saga's own
    group_id  the server's group, "" for none
    """

    disks: list[ShelvedDisk] = field(default_factory=list[ShelvedDisk])
    known: list[str] = field(default_factory=list[str])
    group_id: str = ""


class UnshelveServer(Struct, frozen=True, kw_only=True):
    """The notes of a server that is given a host again.

    wished_zone, wished_host  where its user wants it, or it was made for; None is anywhere
    known, group_id           as above
    tried                     hosts that could not have it, before this one
    """

    server_id: str
    action_id: int
    project_id: str
    user_id: str
    wished_zone: str | None = None
    wished_host: str | None = None
    disks: list[ShelvedDisk] = []
    known: list[str] = []
    group_id: str = ""
    host: str = ""
    zone: str = ""
    tried: list[Tried] = []


def shelved(row: BlockDevice) -> ShelvedDisk:
    """Return a volume of a server as one that waits for it, or is to."""
    return ShelvedDisk(
        block_device_id=row.id,
        volume_id=row.volume_id or "",
        attachment_id=row.attachment_id or "",
        device_name=row.device_name,
        boot_index=row.boot_index,
        multiattach=row.multiattach,
    )


def items(notes: OffloadServer | UnshelveServer) -> list[str]:
    """Return the volumes, by their block devices."""
    return [disk.block_device_id for disk in notes.disks]


def find(notes: OffloadServer | UnshelveServer, item: str) -> ShelvedDisk:
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
    return _at(notes, item, notes.host or None, find(notes, item).attachment_id)


def nowhere(notes: OffloadServer | UnshelveServer, item: str) -> Disk:
    """Return a volume that is at no host, by the attachment that is to keep it."""
    return _at(notes, item, None, find(notes, item).made)


def _at(
    notes: OffloadServer | UnshelveServer, item: str, host: str | None, attachment_id: str
) -> Disk:
    disk = find(notes, item)
    return Disk(
        server_id=notes.server_id,
        volume_id=disk.volume_id,
        host=host,
        attachment_id=attachment_id or None,
        device_name=disk.device_name,
        boot_index=disk.boot_index,
        multiattach=disk.multiattach,
        known=notes.known,
    )
