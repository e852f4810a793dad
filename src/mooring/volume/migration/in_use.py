"""Which volumes are migrated under the guest that has them, and what that wants of a pool.

Source: facts/block_storage.md 1.6, facts/compute.md 2.5. Errors: Invalid, Conflict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import select

from mooring.errors import Conflict, Invalid
from mooring.volume.tables import AttachmentRow, ExportRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.tables import VolumeRow


class User(Struct, frozen=True):
    """The server that has a volume, and its host; "" where the volume service was not told."""

    server_id: str
    host: str


def require_one_place(tx: Session, row: VolumeRow) -> None:
    """Raise Conflict while a server has a volume at two hosts: it moves, or is to be confirmed.

    So until its user's word about a move (VERIFY_RESIZE) nothing of the volume changes that both
    hosts would have to learn.
    """
    query = select(AttachmentRow.server_id).where(AttachmentRow.volume_id == row.id)
    found = [server for server in tx.execute(query).scalars() if server]
    twice = sorted({server for server in found if found.count(server) > 1})
    if twice:
        raise Conflict(
            f"Resource conflict: Server {twice[0]} has volume {row.id} at two hosts, as it moves "
            "between them. Nothing was changed; ask again when its move is confirmed or reverted."
        )


def find_user(tx: Session, row: VolumeRow) -> User:
    """Return who has a volume in use. Raises Invalid unless that is one server, and it writes."""
    query = select(AttachmentRow).where(AttachmentRow.volume_id == row.id)
    found = tx.execute(query).scalars().all()
    if row.multiattach or len(found) > 1:
        what = "may be" if row.multiattach else "is"
        raise _refuse(row, f"{what} attached more than once, and only one guest can be switched")
    if not found or found[0].server_id is None or found[0].attach_status != "attached":
        raise _refuse(row, "is attached to no server that could go on with a copy")
    if found[0].attach_mode == "ro" or row.readonly:
        raise _refuse(row, "is read-only for its server, which copies it only where it writes")
    exported = select(ExportRow.host).where(ExportRow.volume_id == row.id).limit(1)
    host = found[0].attached_host or tx.execute(exported).scalar()
    return User(found[0].server_id, host or "")


def _refuse(row: VolumeRow, why: str) -> Invalid:
    return Invalid(
        f"Invalid volume: Volume {row.id} {why}. Nothing was changed; detach it first, or choose a "
        "type that its pool has."
    )
