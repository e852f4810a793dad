"""What the deletion of a server knows between two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring.compute.moves import left_over
from mooring.compute.shares import folders
from mooring.compute.shares.folders import Folder
from mooring.compute.volumes import disk_places, disks
from mooring.compute.volumes.sagas.release_device import lock_of
from mooring.saga.define import Lock, exclusive

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.orm import Session

    from mooring.compute.tables import BlockDevice, Migration, Server


class OldDisk(Struct, frozen=True):
    """A volume that the server has, or was about to have, at one host."""

    volume_id: str
    attachment_id: str | None
    state: str
    delete_too: bool = False
    elsewhere: str = ""
    """Another host than that of the server; it lets go first."""
    only_at: str = ""
    """Another host, where that of the server has it no more."""

    @property
    def name(self) -> str:
        """What this one is called as an item."""
        if not self.elsewhere:
            return self.volume_id
        return self.attachment_id or f"{self.volume_id}_at_{self.elsewhere}"


class DeleteServer(Struct, frozen=True, kw_only=True):
    """The notes.

    releases  block devices whose clean-up is taken over
    elsewhere other hosts that may have the guest, or a part of it
    moves     moves in whose name placement holds room besides
    is_local  whether its root disk lies on a host, and may have been on its way to another one
    image_id  the image that has its root disk while it is put away, "" for none
    kept      what was to go too and did not, and why
    lost      items that a failure freed all the same
    shares    those of the server, at each host that is let in
    """

    server_id: str
    action_id: int
    releases: list[str] = []
    host: str | None = None
    elsewhere: list[str] = []
    moves: list[str] = []
    disks: list[OldDisk] = []
    is_local: bool = False
    image_id: str = ""
    kept: list[str] = []
    lost: list[str] = []
    shares: list[Folder] = []

    @property
    def has_looked(self) -> bool:
        """Whether anything was found that there is to end."""
        return bool(self.host or self.disks or self.elsewhere or self.moves)


def find(notes: DeleteServer, item: str) -> OldDisk:
    """Return the disk that an item names."""
    return next(disk for disk in notes.disks if disk.name == item)


def disk_of(notes: DeleteServer, old: OldDisk) -> disks.Disk:
    """Return a disk at the host that has it."""
    return disks.Disk(
        server_id=notes.server_id,
        volume_id=old.volume_id,
        host=old.elsewhere or old.only_at or notes.host,
        attachment_id=old.attachment_id,
    )


def locks_of(notes: DeleteServer) -> list[Lock]:
    """Return what a deletion holds: the server, and the clean-ups of its volumes."""
    keys = [f"server:{notes.server_id}", *(lock_of(item) for item in notes.releases)]
    return [exclusive(key) for key in keys]


def look_elsewhere(
    tx: Session, notes: DeleteServer, server: Server, left: Migration | None
) -> DeleteServer:
    """Return the notes with every other host that may have a part of the server, and its shares."""
    elsewhere = {disk.elsewhere or disk.only_at for disk in notes.disks} | left_over.hosts_of(left)
    moves = [left.uuid] if left else []
    others = sorted(elsewhere - {"", notes.host})
    shares = folders.everywhere(tx, server.id)
    root = {"is_local": bool(server.image_id), "image_id": server.shelved_image_id}
    return replace(notes, elsewhere=others, moves=moves, shares=shares, **root)


def look(tx: Session, server: Server, row: BlockDevice) -> Iterator[OldDisk]:
    """Yield a volume of a server at each host that has it, the server's own last."""
    place, others = disk_places.split(tx, row.id, server.host)
    volume_id = row.volume_id or ""
    for other in others:
        yield OldDisk(volume_id, other.attachment_id, row.state, elsewhere=other.host)
    own = OldDisk(volume_id, place.attachment_id, row.state, row.delete_on_termination)
    yield own if place.host == server.host else replace(own, only_at=place.host)
