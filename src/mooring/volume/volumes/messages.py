"""User messages: why an operation failed that was accepted before.

Source: facts/block_storage.md 12.2.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring import limits
from mooring.errors import NotFound
from mooring.volume.tables import BackupRow, MessageRow, SnapshotRow, VolumeRow
from mooring.who import Who

if TYPE_CHECKING:
    from mooring.saga.define import Run
    from mooring.volume.service import Volume

Action = Literal[
    "schedule",
    "upload",
    "image",
    "extend",
    "create",
    "create_snapshot",
    "delete_snapshot",
    "create_backup",
    "delete_backup",
    "restore_backup",
    "reimage",
    "revert",
]
_ACTIONS: dict[Action, tuple[str, str]] = {
    "schedule": ("001", "schedule allocate volume"),
    "upload": ("003", "copy volume to image"),
    "image": ("005", "copy image to volume"),
    "extend": ("007", "extend volume"),
    "create": ("008", "create volume from backend storage"),
    "create_snapshot": ("009", "create snapshot"),
    "delete_snapshot": ("010", "delete snapshot"),
    "create_backup": ("013", "create backup"),
    "delete_backup": ("014", "delete backup"),
    "restore_backup": ("015", "restore backup"),
    "reimage": ("016", "reimage volume"),
    "revert": ("017", "revert volume to snapshot"),
}
Detail = Literal[
    "unknown",
    "no_backend",
    "upload",
    "quota",
    "notify",
    "extend",
    "driver",
    "snapshot",
    "reimage_notify",
    "image_format",
]
_DETAILS: dict[Detail, tuple[str, str]] = {
    "unknown": ("001", "An unknown error occurred."),
    "no_backend": ("003", "Could not find any available weighted backend."),
    "upload": ("004", "Failed to upload volume to image at backend."),
    "quota": ("006", "Not enough quota resource for operation."),
    "notify": ("009", "Compute service failed to extend volume."),
    "extend": ("010", "Volume Driver failed to extend volume."),
    "driver": ("012", "Driver failed to create the volume."),
    "snapshot": ("013", "Snapshot failed to create."),
    "reimage_notify": ("028", "The compute service could not be told of the reimage."),
    "image_format": ("029", "The image's data are not what its format says."),
}
_RESOURCES = {
    VolumeRow: "VOLUME",
    SnapshotRow: "VOLUME_SNAPSHOT",
    BackupRow: "VOLUME_BACKUP",
}


def add(
    tx: Session,
    row: VolumeRow | SnapshotRow | BackupRow,
    what: tuple[Action, Detail],
    *,
    request_id: str,
    now: datetime,
    why: str = "",
) -> None:
    """Tell the owner of a volume, snapshot or backup what went wrong with it, and why if known."""
    resource = _RESOURCES[type(row)]
    doing, reason = _ACTIONS[what[0]][1], _DETAILS[what[1]][1]
    tx.add(
        MessageRow(
            id=str(uuid.uuid4()),
            project_id=row.project_id,
            event_id=_event_of(row, what),
            text=f"{doing}:{reason} {why}".rstrip(),
            level="ERROR",
            request_id=request_id,
            resource_type=resource,
            resource_id=row.id,
            created_at=now,
            expires_at=now + timedelta(seconds=limits.VOLUME_MESSAGE_LIFE_S),
        )
    )


def is_told(
    tx: Session, row: VolumeRow | SnapshotRow | BackupRow, what: tuple[Action, Detail]
) -> bool:
    """Whether the owner has a message of this kind about a volume, snapshot or backup already."""
    query = select(MessageRow.id).where(
        MessageRow.project_id == row.project_id,
        MessageRow.resource_id == row.id,
        MessageRow.event_id == _event_of(row, what),
    )
    return tx.execute(query.limit(1)).first() is not None


def _event_of(row: VolumeRow | SnapshotRow | BackupRow, what: tuple[Action, Detail]) -> str:
    return f"VOLUME_{_RESOURCES[type(row)]}_{_ACTIONS[what[0]][0]}_{_DETAILS[what[1]][0]}"


def note(tx: Session, run: Run[Volume], volume_id: str, what: tuple[Action, Detail]) -> None:
    """Tell the owner of a volume what went wrong with it, from a saga; nobody when it is gone."""
    # For the sagas of a volume alone, and those act for nobody.
    row = tx.get(VolumeRow, volume_id)
    if row is not None:
        add(tx, row, what, request_id=run.request_id, now=run.now())


def visible(tx: Session, who: Who, message_id: str) -> MessageRow:
    """Return the message that this caller may see. Raises NotFound."""
    row = tx.get(MessageRow, message_id)
    if row is None or not (who.is_admin or row.project_id == who.project_id):
        raise NotFound(f"Message {message_id} could not be found.")
    return row


def forget(tx: Session, who: Who, message_id: str) -> None:
    """Delete a message. Raises NotFound."""
    tx.delete(visible(tx, who, message_id))
