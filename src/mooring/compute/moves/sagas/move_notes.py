"""What a move knows between two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.compute.volumes.disks import Disk

if TYPE_CHECKING:
    from mooring.compute.tables import BlockDevice


class MovingDisk(Struct, frozen=True, kw_only=True):
    """A volume that goes along. `attachment_id` is the source's, `made` the destination's."""

    block_device_id: str
    volume_id: str
    attachment_id: str
    device_name: str | None = None
    boot_index: int | None = None
    multiattach: bool = False
    made: str = ""


class LiveMigrate(Struct, frozen=True, kw_only=True):
    """The notes.

    migration_uuid  by which placement knows who holds the source meanwhile
    wished_host     where the user wants it
    group_id        the server's group, "" for none
    known           attachments that the volumes had before, never to be deleted as the saga's own
    reason          why the guest stayed; empty once it has moved
    aborted         it stayed because its user asked for that
    kept            the host that has the guest once that is settled; empty before
    lost            neither host has it
    gone            attachments that are there no more, in a bad end
    """

    server_id: str
    action_id: int
    migration_id: int
    migration_uuid: str
    project_id: str
    user_id: str
    vm_state: str
    source: str
    wished_host: str | None = None
    group_id: str = ""
    destination: str = ""
    zone: str = ""
    disks: list[MovingDisk] = []
    known: list[str] = []
    reason: str = ""
    aborted: bool = False
    kept: str = ""
    lost: bool = False
    gone: list[str] = []

    @property
    def has_moved(self) -> bool:
        """Whether the guest is at the destination."""
        return bool(self.kept) and self.kept == self.destination

    @property
    def left(self) -> str:
        """The host that is left."""
        return self.source if self.has_moved else self.destination


def moving(row: BlockDevice) -> MovingDisk:
    """Return a server's volume as one that goes along."""
    return MovingDisk(
        block_device_id=row.id,
        volume_id=row.volume_id or "",
        attachment_id=row.attachment_id or "",
        device_name=row.device_name,
        boot_index=row.boot_index,
        multiattach=row.multiattach,
    )


def items(notes: LiveMigrate) -> list[str]:
    """Return the volumes that go along, by their block devices."""
    return [disk.block_device_id for disk in notes.disks]


def find(notes: LiveMigrate, item: str) -> MovingDisk:
    """Return the volume that an item names."""
    return next(disk for disk in notes.disks if disk.block_device_id == item)


def there(notes: LiveMigrate, item: str) -> Disk:
    """Return a volume at the destination."""
    moved = find(notes, item)
    return _at(notes, moved, notes.destination, moved.made)


def left_behind(notes: LiveMigrate, item: str) -> Disk:
    """Return a volume at the host that is left."""
    if not notes.has_moved:
        return there(notes, item)
    moved = find(notes, item)
    return _at(notes, moved, notes.source, moved.attachment_id)


def _at(notes: LiveMigrate, moved: MovingDisk, host: str, attachment_id: str) -> Disk:
    return Disk(
        server_id=notes.server_id,
        volume_id=moved.volume_id,
        host=host,
        attachment_id=attachment_id or None,
        device_name=moved.device_name,
        boot_index=moved.boot_index,
        multiattach=moved.multiattach,
        known=notes.known,
    )
