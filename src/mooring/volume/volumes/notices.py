"""The notifications of the volume service: names and payloads (facts/block_storage.md 12.1)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.volume.tables import AttachmentRow, VolumeRow

if TYPE_CHECKING:
    from mooring.notify.outbox import Priority
    from mooring.volume.service import Volume

_volumes = select(
    VolumeRow.id,
    VolumeRow.project_id,
    VolumeRow.user_id,
    VolumeRow.backend,
    VolumeRow.zone,
    VolumeRow.volume_type_id,
    VolumeRow.name,
    VolumeRow.launched_at,
    VolumeRow.created_at,
    VolumeRow.status,
    VolumeRow.size_gib,
    VolumeRow.labels,
    VolumeRow.image_metadata,
)
_attachments = select(
    AttachmentRow.id,
    AttachmentRow.volume_id,
    AttachmentRow.server_id,
    AttachmentRow.attached_host,
    AttachmentRow.mountpoint,
    AttachmentRow.attach_status,
    AttachmentRow.attach_mode,
    AttachmentRow.attached_at,
    AttachmentRow.detached_at,
).order_by(AttachmentRow.created_at, AttachmentRow.id)


def send(tx: Session, volume: Volume, volume_id: str, event: str, **more: Any) -> None:
    """Send `volume.<event>`, as in "resize.start", with the volume as this transaction sees it.

    `more` overrides or adds members of the payload. Does nothing when nobody wants notifications,
    or when the volume is gone: send before the row is deleted.
    """
    if not volume.outbox.is_on:
        return
    payload = _payload(tx, volume_id)
    if payload is not None:
        publisher = _publisher(payload["host"])
        volume.outbox.send(tx, f"volume.{event}", payload | more, publisher=publisher)


def send_scheduling_failure(
    tx: Session, volume: Volume, volume_id: str, reason: str, *, method: str = "create_volume"
) -> None:
    """Send `scheduler.<method>`: no pool was found for what a volume needs."""
    if not volume.outbox.is_on:
        return
    properties = _payload(tx, volume_id)
    if properties is not None:
        payload = {
            "volume_id": volume_id,
            "volume_properties": properties,
            "state": "error",
            "method": method,
            "reason": reason,
        }
        how: dict[str, Priority] = {"priority": "ERROR"}
        volume.outbox.send(tx, f"scheduler.{method}", payload, publisher="scheduler", **how)


def _publisher(backend: str | None) -> str:
    return f"volume.{backend.partition('#')[0]}" if backend else "volume"


def _payload(tx: Session, volume_id: str) -> dict[str, Any] | None:
    row = tx.execute(_volumes.where(VolumeRow.id == volume_id)).first()
    if row is None:
        return None
    attached = tx.execute(_attachments.where(AttachmentRow.volume_id == volume_id))
    payload = {
        "tenant_id": row.project_id,
        "host": row.backend,
        "user_id": row.user_id,
        "availability_zone": row.zone,
        "volume_id": row.id,
        "volume_type": row.volume_type_id,
        "display_name": row.name,
        "launched_at": _moment(row.launched_at),
        "created_at": _moment(row.created_at),
        "status": row.status,
        "snapshot_id": None,
        "size": row.size_gib,
        "replication_status": None,
        "replication_extended_status": None,
        "replication_driver_data": None,
        "metadata": row.labels,
        "volume_attachment": [_attachment(one) for one in attached],
    }
    if row.image_metadata:
        payload["glance_metadata"] = row.image_metadata
    return payload


def _attachment(row: Any) -> dict[str, Any]:
    """Return one attachment, without the connection: that is nobody's business."""
    return {
        "id": row.id,
        "volume_id": row.volume_id,
        "instance_uuid": row.server_id,
        "attached_host": row.attached_host,
        "mountpoint": row.mountpoint,
        "attach_status": row.attach_status,
        "attach_mode": row.attach_mode,
        "attach_time": _moment(row.attached_at),
        "detach_time": _moment(row.detached_at),
    }


def _moment(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat()
