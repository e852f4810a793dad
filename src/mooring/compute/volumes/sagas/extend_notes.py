"""What growing a volume under its guest knows between two steps, and what it has to see first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring.compute.hosts import hosts
from mooring.compute.tables import Server
from mooring.compute.volumes import devices
from mooring.errors import Conflict
from mooring.store.loaded import ById

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.clients.volume import Volume

NEW_SIZE = "extend_new_size"
GIB = 1 << 30
_servers = ById(Server)


class ExtendVolume(Struct, frozen=True, kw_only=True):
    """The notes. Sizes in GiB, those read back from a host in bytes.

    host         where the server was when this was asked for; since it was looked at, where it is
    answers      the sender waits for the completion action (compute 2.105)
    extending    what the volume was found to be; None while nobody has looked
    target_gib   the size that the disk is to have
    image_bytes  what the image has, as its host said last
    guest_bytes  what the guest saw when this was taken back
    event        the key of the operation that told of it; empty where it had none
    is_renewed   whether another one goes on with it, behind the operation that took its place
    """

    server_id: str
    volume_id: str
    host: str
    action_id: int
    answers: bool
    block_device_id: str = ""
    extending: bool | None = None
    target_gib: int = 0
    image_bytes: int = 0
    guest_bytes: int = 0
    event: str = ""
    is_renewed: bool = False

    @property
    def owes_answer(self) -> bool:
        """Whether the volume service may wait for a completion."""
        return self.answers and self.extending is not False

    @property
    def has_grown(self) -> bool:
        """Whether the image is known to have the new size."""
        return bool(self.extending) and self.image_bytes >= self.target_gib * GIB

    @property
    def came_true(self) -> bool:
        """Whether image and guest were found to have the new size when this was taken back."""
        return self.has_grown and self.guest_bytes >= self.target_gib * GIB


def find_device(tx: Session, notes: ExtendVolume) -> ExtendVolume:
    """Return the notes with the block device to grow, and the host that has its server by now.

    The server may have moved while this waited for it. Raises Conflict when there is none to grow.
    """
    server = _servers.find(tx, notes.server_id)
    if server is None or server.deleted_at is not None or server.host is None:
        raise Conflict(
            f"Server {notes.server_id} is on no host any more. Volume {notes.volume_id} was not "
            "extended there."
        )
    row = devices.find_volume(tx, notes.server_id, notes.volume_id)
    if row is None or row.state != "attached":
        raise Conflict(
            f"Volume {notes.volume_id} is not attached to server {notes.server_id}. It was not "
            "extended there."
        )
    host = hosts.find(tx, server.host)
    if host is None or host.version < hosts.EXTEND_VERSION:
        raise Conflict(
            f"Host {server.host} is older than service version {hosts.EXTEND_VERSION} and cannot "
            f"extend volume {notes.volume_id} under a guest. Upgrade the host, or detach the "
            "volume first."
        )
    return replace(notes, block_device_id=row.id, host=server.host)


def read_target(volume: Volume) -> int:
    """Return the size that an extending volume is to have. Raises Conflict when it tells none."""
    told = volume.metadata.get(NEW_SIZE, "")
    if not (told.isascii() and told.isdigit() and int(told) > volume.size_gib):
        raise Conflict(
            f"Volume {volume.id} of {volume.size_gib} GiB is extending and names no larger size. "
            "It was not extended.",
            private=f"{NEW_SIZE} is {told[:64]!r}",
        )
    return int(told)
