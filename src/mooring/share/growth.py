"""What keeps the tables of the share service from growing without end."""

from __future__ import annotations

from mooring.limits import VOLUME_MESSAGE_LIFE_S
from mooring.share.service import Share
from mooring.share.tables import (
    ExportRow,
    MessageRow,
    PoolRow,
    QuotaClassRow,
    QuotaProjectRow,
    QuotaRow,
    ReservationRow,
    ResourceLockRow,
    RuleRow,
    ShareRow,
    SnapshotRow,
    TypeAccessRow,
    TypeRow,
)
from mooring.store.growth import Aged, Bound
from mooring.store.limits import MESSAGE_LEAST_S, MESSAGE_ROWS

BOUNDS: tuple[Bound[Share], ...] = (
    Bound(TypeRow, "made by administrators alone"),
    Bound(TypeAccessRow, "made by administrators alone"),
    Bound(ShareRow, "the quota `shares`; gone with the share"),
    Bound(ExportRow, "a few of each share; gone with it"),
    Bound(RuleRow, "`SHARE_RULES` of each share; gone with it"),
    Bound(SnapshotRow, "the quota `snapshots`; gone with the snapshot"),
    Bound(
        ResourceLockRow, "`SHARE_LOCKS` of each share and rule, and the rules' own; gone with it"
    ),
    Bound(PoolRow, "one for each pool of a host"),
    Bound(QuotaProjectRow, "one for each project"),
    Bound(QuotaRow, "set by administrators alone"),
    Bound(QuotaClassRow, "set by administrators alone"),
    Bound(ReservationRow, "gone with the operation that grows the share"),
    Bound(
        MessageRow,
        "`VOLUME_MESSAGE_LIFE_S`; beyond `MESSAGE_ROWS` after `MESSAGE_LEAST_S`",
        Aged[Share](
            MessageRow,
            "created_at",
            VOLUME_MESSAGE_LIFE_S,
            most=MESSAGE_ROWS,
            least_s=MESSAGE_LEAST_S,
        ),
    ),
)
