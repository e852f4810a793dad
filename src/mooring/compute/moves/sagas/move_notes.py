"""What a move knows between two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.compute.flavors.sizes import Size
from mooring.compute.scheduling.tried import Tried
from mooring.compute.shares.folders import Folder
from mooring.compute.volumes.moving_disks import MovingDisk

if TYPE_CHECKING:
    from mooring.compute.volumes.disks import Disk

LEAVES = frozenset({"confirmResize", "revertResize"})
"""Cold moves that leave a host for good."""


class Move(Struct, frozen=True, kw_only=True):
    """The notes of every move.

    migration_uuid  by which placement knows who holds the source meanwhile
    wished_host     where the user wants it
    group_id        the server's group, "" for none
    known           attachments that the volumes had before, never to be deleted as the saga's own
    reason          why the guest stayed; empty once it has moved
    tried           destinations that could not have it, before this one
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
    tried: list[Tried] = []
    kept: str = ""
    lost: bool = False
    gone: list[str] = []

    @property
    def has_moved(self) -> bool:
        """Whether the guest is at the destination."""
        return bool(self.kept) and self.kept == self.destination and not self.reason

    @property
    def last_destination(self) -> str | None:
        """Where it is to go, or was to go when that was tried last."""
        return self.destination or next((one.host for one in reversed(self.tried)), None)

    @property
    def left(self) -> str:
        """The host that is left."""
        return self.source if self.has_moved else self.destination


class LiveMigrate(Move, frozen=True, kw_only=True):
    """The notes.

    aborted     the guest stayed because its user asked for that
    is_local    whether its root disk lies on its host, and goes along by block migration
    hypervisor  what that disk is made for; "" where any will do
    """

    aborted: bool = False
    is_local: bool = False
    hypervisor: str = ""


class Evacuate(Move, frozen=True, kw_only=True):
    """The notes of a server that is given to another host because its own one is dead.

    is_local    whether its root disk lay on that host, and is made anew of its image
    stays_off   whether the guest is not to be started
    waiting     the block devices of volumes that waited at no host, and go along with the others
    hypervisor  "": any will do, as nothing of the guest goes along
    """

    is_local: bool = False
    stays_off: bool = False
    waiting: list[str] = []
    hypervisor: str = ""


class ColdMove(Move, frozen=True, kw_only=True):
    """The notes of a move in which the guest is off, there and back.

    action    migrate, resize, confirmResize or revertResize
    former    the size that the server has at the source
    size      the size that it is to have at the destination
    to_make   the volumes that are given to the destination by this move, by their block devices
    reverted  the state to which a reverted server goes back: active or stopped; its volumes are at
              both hosts from the start
    is_local  whether its root disk lies on its host
    hypervisor  what that disk is made for; "" where any will do
    brought   whether that one is where the guest is to start, as the guest is to find it
    copied    how much of it had come when that was last looked at, in bytes
    shares    the shares that go along, as they are at the source
    to_share  those that are given to the destination by this move, by their mappings
    owed      those that the host which is left does not let go of now, by their mappings
    """

    action: str
    former: Size
    size: Size
    to_make: list[str] = []
    reverted: str = ""
    is_local: bool = False
    hypervisor: str = ""
    brought: bool = False
    copied: int = 0
    shares: list[Folder] = []
    to_share: list[str] = []
    owed: list[str] = []

    @property
    def stays(self) -> bool:
        """Whether the server only gets another size, on the host where it is: no volume goes."""
        return self.source == self.destination

    @property
    def goes_with_disk(self) -> bool:
        """Whether the root disk is at both hosts: one has it as it was when the guest stopped."""
        return self.is_local and not self.stays

    @property
    def exchanges_disk(self) -> bool:
        """Whether there are two root disks on the one host, of different sizes."""
        return self.is_local and self.stays and self.former.disk_gib != self.size.disk_gib


def given(notes: Move) -> list[str]:
    """Return the volumes that this move gives to the destination, by their block devices."""
    if not isinstance(notes, ColdMove):
        return items(notes)
    return notes.to_make


def left(notes: Move) -> list[str]:
    """Return the volumes at the host that is left, by their block devices.

    What went somewhere to be verified is left by its confirmation, and one that was not reverted
    only where it did not come from.
    """
    if not isinstance(notes, ColdMove):
        return items(notes)
    if notes.has_moved:
        return items(notes) if notes.action in LEAVES else []
    return notes.to_make


def given_shares(notes: ColdMove) -> list[str]:
    """Return the shares that this move gives to the destination, by their mappings."""
    return notes.to_share


def shares_along(notes: ColdMove) -> list[str]:
    """Return the shares that go along, by their mappings: none where the server stays."""
    return [] if notes.stays else [share.mapping_id for share in notes.shares]


def left_shares(notes: ColdMove) -> list[str]:
    """Return the shares at the host that is left, by their mappings; as `left` does of volumes."""
    if notes.has_moved:
        return shares_along(notes) if notes.action in LEAVES else []
    return notes.to_share


def items(notes: Move) -> list[str]:
    """Return the volumes that go along, by their block devices: none where the server stays."""
    if isinstance(notes, ColdMove) and notes.stays:
        return []
    return [disk.block_device_id for disk in notes.disks]


def find(notes: Move, item: str) -> MovingDisk:
    """Return the volume that an item names."""
    return next(disk for disk in notes.disks if disk.block_device_id == item)


def there(notes: Move, item: str) -> Disk:
    """Return a volume at the destination."""
    moved = find(notes, item)
    return moved.at(notes.server_id, notes.destination, moved.made, notes.known)


def left_behind(notes: Move, item: str) -> Disk:
    """Return a volume at the host that is left."""
    if not notes.has_moved:
        return there(notes, item)
    moved = find(notes, item)
    return moved.at(notes.server_id, notes.source, moved.attachment_id, notes.known)
