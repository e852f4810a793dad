"""User messages: why an operation failed that was accepted before.

Source: facts/shared_file_systems.md 13.9.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from sqlalchemy.orm import Session

from mooring import limits
from mooring.errors import NotFound
from mooring.share.tables import MessageRow

if TYPE_CHECKING:
    from mooring.errors import MooringError
    from mooring.who import Who

Action = Literal["allocate", "create", "delete", "extend", "shrink", "access"]
_ACTIONS: dict[Action, tuple[str, str]] = {
    "allocate": ("001", "allocate host"),
    "create": ("002", "create"),
    "delete": ("007", "delete"),
    "extend": ("008", "extend"),
    "shrink": ("009", "shrink"),
    "access": ("010", "update access rules"),
}
Detail = Literal["unknown", "no_pool", "extend", "refused_shrink", "shrink", "client"]
_DETAILS: dict[Detail, tuple[str, str]] = {
    "unknown": ("001", "An unknown error occurred."),
    "no_pool": ("002", "No storage could be allocated for this share request."),
    "extend": ("015", "Share Driver failed to extend share."),
    "refused_shrink": ("018", "Share Driver refused to shrink the share, which is as it was."),
    "shrink": ("019", "Share Driver failed to shrink the share."),
    "client": ("021", "One or more access rules could not be applied."),
}


class Told(Struct, frozen=True, kw_only=True):
    """Whom a message is for, and what it is about."""

    project_id: str
    resource_type: Literal["SHARE", "SHARE_SNAPSHOT"]
    resource_id: str
    request_id: str


def add(
    tx: Session,
    told: Told,
    what: tuple[Action, Detail],
    error: MooringError | None,
    now: datetime,
) -> None:
    """Tell the owner of a share or snapshot what went wrong with it, and why if that is known."""
    (action, doing), (detail, reason) = _ACTIONS[what[0]], _DETAILS[what[1]]
    why = "" if error is None or error.kind == "bug" else f" {error.public}"
    tx.add(
        MessageRow(
            id=str(uuid.uuid4()),
            project_id=told.project_id,
            action_id=action,
            detail_id=detail,
            text=f"{doing}: {reason}{why}",
            level="ERROR",
            request_id=told.request_id,
            resource_type=told.resource_type,
            resource_id=told.resource_id,
            created_at=now,
            expires_at=now + timedelta(seconds=limits.VOLUME_MESSAGE_LIFE_S),
        )
    )


def visible(tx: Session, who: Who, message_id: str) -> MessageRow:
    """Return the message that this caller may see. Raises NotFound."""
    row = tx.get(MessageRow, message_id)
    if row is None or not (who.is_admin or row.project_id == who.project_id):
        raise NotFound(f"Message {message_id} could not be found.")
    return row


def forget(tx: Session, who: Who, message_id: str) -> None:
    """Delete a message. Raises NotFound."""
    tx.delete(visible(tx, who, message_id))
