"""What keeps the outbox small."""

from __future__ import annotations

from typing import Any

from mooring.notify.tables import DelivererRow, OutboxRow
from mooring.store.growth import Bound

BOUNDS: tuple[Bound[Any], ...] = (
    Bound(OutboxRow, "until delivered, at most `NOTIFY_KEEP_S` and `NOTIFY_ROWS` for each target"),
    Bound(DelivererRow, "one for each target"),
)
