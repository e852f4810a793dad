"""What a reset of a volume's status knows between two steps, and what it asks for."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from msgspec import Struct

from mooring.volume.migration import copies
from mooring.volume.migration.copies import Move
from mooring.volume.volumes import statuses

_AT_REST = ("available", "in-use", "maintenance", "awaiting-transfer")


class ResetStatus(Struct, frozen=True, kw_only=True):
    """The notes. Empty words stay as they are; `exports` end with the attachments."""

    volume_id: str
    user_id: str
    status: str = ""
    attach_status: str = ""
    migration_status: str = ""
    backend: str = ""
    exports: list[str] = []
    event: str = ""
    """The operation under which compute may still let the volume grow."""
    unsure: bool = False
    """Whether the volume's file may have grown without its size."""
    copies: bool = False
    """Whether the volume's host may be replacing its content."""
    was_deleting: bool = False
    """Whether the storage may have removed the volume already."""
    arriving: Move | None = None
    """A migration behind its switch that this one has absorbed, and goes on with."""
    swapping: Move | None = None
    """A migration of a volume in use that this one has absorbed: compute may be at work on it."""
    swap_event: str = ""
    """The operation under which compute was asked for that; empty when it was not."""


def wanted(notes: ResetStatus, now: datetime) -> dict[str, Any]:
    """Return what a volume is to show."""
    values: dict[str, Any] = {}
    if notes.status:
        at_rest = notes.status in _AT_REST or "error" in notes.status
        values |= {"status": notes.status, **statuses.RETURNED}
        if not at_rest:
            values |= {"borrowed_by": notes.user_id, "borrowed_at": now}
    if notes.attach_status:
        values["attach_status"] = notes.attach_status
    if notes.migration_status:
        values["migration_status"] = copies.word_of(notes.migration_status)
    return values
