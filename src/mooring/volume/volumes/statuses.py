"""How a volume's status changes: by a guarded update, or not at all.

A transitional status has an owner: a saga, or the client of the API that asked for it, whose name
is written into the `borrowed` columns.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, or_, select
from sqlalchemy.orm import Session

from mooring.fence.operation import Operation
from mooring.store.prepared import Change, Prepared, named
from mooring.volume.tables import AttachmentRow, VolumeRow
from mooring.who import Who

BORROWED = ("attaching", "detaching", "reserved")
"""Transitional statuses that clients of the API bring a volume into."""

OWNED = (
    *("creating", "downloading", "deleting", "extending", "reverting", "retyping", "uploading"),
    *("backing-up", "restoring-backup"),
)
"""Transitional statuses that only a saga of this service enters and leaves."""

RETURNED: dict[str, Any] = {"borrowed_by": "", "borrowed_for": "", "borrowed_at": None}
"""The columns of a volume or attachment that nobody has borrowed."""

OFFERED = "awaiting-transfer"
"""The status of a volume that is offered: it rests, and nobody owns it but its user."""

_LIVE = ("attached", "attaching", "detaching", "reserved")
_AT_REST = (None, "success", "error")
_change_any = Change(VolumeRow)
_looked_at = (VolumeRow.status, VolumeRow.launched_at, VolumeRow.migration_status)
_standing = Prepared(
    select(*_looked_at)
    .where(VolumeRow.id == bindparam("of_volume"))
    .with_for_update(of=VolumeRow, key_share=True),
    named("Standing", _looked_at),
)
_first_columns = (AttachmentRow.attach_status, *(getattr(AttachmentRow, name) for name in RETURNED))
_first_of = Prepared(
    select(*_first_columns)
    .where(
        AttachmentRow.volume_id == bindparam("of_volume"),
        or_(*(AttachmentRow.attach_status == live for live in _LIVE)),
    )
    .order_by(AttachmentRow.attach_status)
    .limit(1)
    .with_for_update(of=AttachmentRow, key_share=True),
    named("First", _first_columns),
)
_change_allowed = Change(VolumeRow, among="status")


def borrowed(who: Who, operation: Operation | None, now: datetime) -> dict[str, Any]:
    """Return the columns that say who has borrowed a volume or attachment, and since when."""
    return {
        "borrowed_by": who.user_id,
        "borrowed_for": str(operation) if operation else "",
        "borrowed_at": now,
    }


def change(
    tx: Session, volume_id: str, *, allowed: Collection[str] | None, now: datetime, **values: Any
) -> bool:
    """Change a volume whose status is one of `allowed` (None: any); tell whether it was."""
    changed = {"updated_at": now, **values}
    if allowed is None:
        return _change_any(tx, volume_id, changed)
    return _change_allowed(tx, volume_id, changed, allowed=list(allowed))


def way_out(status: str) -> str:
    """Return what a refusal adds about a status that nothing ends by itself, behind a space."""
    if status != OFFERED:
        return ""
    return (
        " It is offered to another project: have its transfer accepted, or delete that first "
        "(openstack volume transfer request list)."
    )


def recompute(tx: Session, volume_id: str, now: datetime, *, settle: bool = False) -> None:
    """Make a volume's status follow from its attachments, as after one of them went away.

    The first in the alphabet of what is left decides; attachments in error do not count. A status
    that a saga owns stays, unless `settle` says that nobody owns it any more.
    Source: facts/block_storage.md 1.10.
    """
    tx.flush()
    volume = _standing.first(tx, of_volume=volume_id)
    if volume is None:
        return
    first = _first_of.first(tx, of_volume=volume_id)
    word = first.attach_status if first else "detached"
    values: dict[str, Any] = {"attach_status": word}
    if word != "attached":
        values["attached_mode"] = None
    if settle or _may_follow(volume, first):
        values["status"] = _status_for(volume, word)
        values |= RETURNED
        if first is not None and word != "attached":
            values |= {name: getattr(first, name) for name in RETURNED}
    change(tx, volume_id, allowed=None, now=now, **values)


def _may_follow(volume: Any, first: Any | None) -> bool:
    if volume.status in OWNED or volume.status == "error_deleting":
        return False
    if volume.launched_at is None:
        return volume.status in BORROWED
    if first is not None or volume.migration_status in _AT_REST:
        return True
    # Whoever had it reserved let go of it before it arrived, and whoever took it off a guest has
    # done so; what a guest has stays as it is.
    return volume.status in ("attaching", "reserved", "detaching")


def _status_for(volume: Any, word: str) -> str:
    if word == "detached":
        # Reserved while its image was still being copied: the saga that copies goes on.
        return "available" if volume.launched_at is not None else "downloading"
    return "in-use" if word == "attached" else word
