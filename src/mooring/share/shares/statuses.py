"""How a share's status changes: by a guarded update, or not at all.

A transitional status has an owner, a saga. Source: facts/shared_file_systems.md 3.1.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from mooring.share.tables import ShareRow
from mooring.store.prepared import Change

TRANSITIONAL = ("creating", "deleting", "extending", "shrinking")
"""Statuses that only a saga of this service enters and leaves."""

_change_any = Change(ShareRow)
_change_allowed = Change(ShareRow, among="status")


def change(
    tx: Session, share_id: str, *, allowed: Collection[str] | None, now: datetime, **values: Any
) -> bool:
    """Change a share whose status is one of `allowed` (None: any); tell whether it was."""
    changed = {"updated_at": now, **values}
    if allowed is None:
        return _change_any(tx, share_id, changed)
    return _change_allowed(tx, share_id, changed, allowed=list(allowed))
