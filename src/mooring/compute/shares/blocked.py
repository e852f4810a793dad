"""What is refused of a server with shares, whatever their status (facts/compute.md 7.4; specs 003).

These checks come before all others, those of locks and states among them. A Conflict of theirs
lasts until somebody detaches the share, and says so for those who would try again (`lasts`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.shares import mappings
from mooring.errors import Conflict, Invalid

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


def refuse_live_migration(tx: Session, server_id: str) -> None:
    """Raise Conflict for a server with a share: what mounts it does not go along."""
    if mappings.has_any(tx, server_id):
        raise Conflict(_say(server_id, "migrated while it runs"), lasts=True)


def refuse_suspension(tx: Session, server_id: str) -> None:
    """Raise Conflict for a server with a share: its memory cannot be saved with what mounts it."""
    if mappings.has_any(tx, server_id):
        raise Conflict(_say(server_id, "suspended"))


def refuse_evacuation(tx: Session, server_id: str) -> None:
    """Raise Conflict for a server with a share: its dead host may still write to it."""
    if mappings.has_any(tx, server_id):
        raise Conflict(_say(server_id, "evacuated"), lasts=True)


def refuse_shelving(tx: Session, server_id: str) -> None:
    """Raise Conflict for a server with a share: no host would mount it meanwhile."""
    if mappings.has_any(tx, server_id):
        raise Conflict(_say(server_id, "shelved"))


def refuse_rebuild(tx: Session, server_id: str) -> None:
    """Raise Invalid for a server with a share, as Nova answers this one with 400."""
    if mappings.has_any(tx, server_id):
        raise Invalid(_say(server_id, "rebuilt"))


def _say(server_id: str, what: str) -> str:
    return (
        f"Feature not supported with instances that have shares: instance {server_id} was not "
        f"{what}. Nothing was changed; detach its shares first."
    )
