"""Who has a volume right now: nobody, or the guest of one server. Asked under the volume's lock.

Snapshots that are overlays depend on it: the files of a volume that nobody has are changed by its
host, those that a guest has by its hypervisor alone. Source: facts/block_storage.md 11.4.
"""

from __future__ import annotations

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.errors import Conflict, Invalid, NotFound
from mooring.volume.backends import backends
from mooring.volume.tables import AttachmentRow, ExportRow, VolumeRow

_MOVING = ("attaching", "detaching")


class Use(Struct, frozen=True):
    """`host` has the storage, `server_id` is the server whose guest has the volume, "" if none."""

    host: str
    server_id: str = ""
    attachments: tuple[str, ...] = ()
    """Those with a connection, which names the active file."""


def find(tx: Session, volume_id: str) -> Use:
    """Return who has a volume; nobody of one for several servers, whose snapshots are copies.

    These are files of their own, which nothing that a guest has stands on. Raises NotFound,
    Conflict while that is changing or unclear, Invalid with several servers.
    """
    volume = tx.get(VolumeRow, volume_id, populate_existing=True)
    if volume is None:
        raise NotFound(f"Volume {volume_id} could not be found.")
    host = backends.host_of(tx, volume_id)
    if volume.multiattach:
        return Use(host)
    rows = tx.execute(select(AttachmentRow).where(AttachmentRow.volume_id == volume_id)).scalars()
    connected = [row for row in rows if row.connection is not None or row.digest]
    legacy = tx.execute(select(ExportRow.id).where(ExportRow.volume_id == volume_id)).first()
    moving = [row.id for row in connected if row.saga_id or row.attach_status in _MOVING]
    if volume.status in _MOVING or moving:
        raise Conflict(
            f"Volume {volume_id} is being attached or detached. Nothing was changed; try again "
            "when that has ended.",
            busy=True,
        )
    if not connected and legacy is None:
        # That of a server that was put away is in use, too, and nobody can reach it.
        return Use(host)
    servers = _servers_of(tx, volume_id)
    if len(servers) > 1:
        raise Invalid(
            f"Invalid volume: Volume {volume_id} is attached to {len(servers)} servers; only one "
            "guest can change its files. Nothing was changed; detach it from the others.",
        )
    if not servers:
        raise Conflict(
            f"Volume {volume_id} is exported to a host for no server, so nobody can tell whether "
            "it is in use. Nothing was changed; end that export first.",
        )
    return Use(host, servers[0], tuple(row.id for row in connected))


def require_clear(tx: Session, volume_id: str) -> None:
    """Raise as `find` does what will not pass by itself."""
    try:
        find(tx, volume_id)
    except Conflict as error:
        if not error.detail.get("busy"):
            raise


def _servers_of(tx: Session, volume_id: str) -> list[str]:
    query = select(AttachmentRow.server_id).where(
        AttachmentRow.volume_id == volume_id,
        AttachmentRow.attach_status == "attached",
        AttachmentRow.server_id.is_not(None),
    )
    return sorted({server_id for server_id in tx.execute(query).scalars() if server_id})
