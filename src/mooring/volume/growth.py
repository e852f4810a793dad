"""What keeps the tables of the volume service from growing without end."""

from __future__ import annotations

from mooring.limits import VOLUME_MESSAGE_LIFE_S
from mooring.store.growth import Aged, Bound
from mooring.store.limits import MESSAGE_LEAST_S, MESSAGE_ROWS
from mooring.volume.service import Volume
from mooring.volume.tables import (
    AttachmentRow,
    BackendRow,
    BackupRow,
    ExportRow,
    MessageRow,
    QuotaClassRow,
    QuotaProjectRow,
    QuotaRow,
    ReservationRow,
    SnapshotRow,
    TransferRow,
    TypeAccessRow,
    TypeRow,
    VolumeRow,
)

BOUNDS: tuple[Bound[Volume], ...] = (
    Bound(TypeRow, "made by administrators alone"),
    Bound(TypeAccessRow, "made by administrators alone"),
    Bound(VolumeRow, "the quota `volumes`; gone with the volume"),
    Bound(SnapshotRow, "the quota `snapshots`; gone with the snapshot"),
    Bound(BackupRow, "the quota `backups`; gone with the backup"),
    Bound(TransferRow, "one of a volume"),
    Bound(AttachmentRow, "`VOLUME_ATTACHMENTS` of each volume; gone with it"),
    Bound(ExportRow, "`VOLUME_ATTACHMENTS` of each volume, one for each host; gone with it"),
    Bound(BackendRow, "one for each pool of a host"),
    Bound(QuotaProjectRow, "one for each project, and one for all volume types"),
    Bound(QuotaRow, "set by administrators alone"),
    Bound(QuotaClassRow, "set by administrators alone"),
    Bound(ReservationRow, "gone with the operation that grows the volume"),
    Bound(
        MessageRow,
        "`VOLUME_MESSAGE_LIFE_S`; beyond `MESSAGE_ROWS` after `MESSAGE_LEAST_S`",
        Aged[Volume](
            MessageRow,
            "created_at",
            VOLUME_MESSAGE_LIFE_S,
            most=MESSAGE_ROWS,
            least_s=MESSAGE_LEAST_S,
        ),
    ),
)
