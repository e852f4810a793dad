"""Settle snapshots whose transitional status somebody set by hand and left behind.

The storage is asked: what it has taken is available, anything else is an error that may be deleted.
A host that does not answer is asked again later. Source: facts/block_storage.md 1.8.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.errors import MooringError
from mooring.volume.backends import backends
from mooring.volume.tables import SnapshotRow, VolumeRow

if TYPE_CHECKING:
    from mooring.volume.service import Volume

log = structlog.get_logger()
_AT_ONCE = 100


async def settle_snapshots(volume: Volume, before: datetime) -> None:
    """Settle what was borrowed before a moment."""
    for row, backend in await volume.store.read(lambda tx: _find(tx, before)):
        try:
            status = await _ask(volume, row, backend)
        except MooringError as error:
            log.info("snapshot is left for later", snapshot=row.id, error=str(error))
            continue
        await volume.store.write(lambda tx, it=row, to=status: _settle(tx, it, to))
        log.info("left-behind snapshot was settled", snapshot=row.id, status=status)


def _find(tx: Session, before: datetime) -> list[tuple[SnapshotRow, str]]:
    query = (
        select(SnapshotRow, VolumeRow.backend)
        .join(VolumeRow, VolumeRow.id == SnapshotRow.volume_id)
        .where(SnapshotRow.borrowed_at < before, SnapshotRow.saga_id == "")
        .order_by(SnapshotRow.borrowed_at)
    )
    return [(row, backend or "") for row, backend in tx.execute(query.limit(_AT_ONCE))]


async def _ask(volume: Volume, row: SnapshotRow, backend: str) -> str:
    agent = volume.agents[backends.split(backend)[0]]
    known = await agent.show_snapshot(row.volume_id, row.id)
    if known is not None and known.state == "taken":
        return "available"
    return "error" if row.status == "creating" else "error_deleting"


def _settle(tx: Session, seen: SnapshotRow, status: str) -> None:
    row = tx.get(SnapshotRow, seen.id, populate_existing=True, with_for_update=True)
    if row is not None and row.borrowed_at == seen.borrowed_at and not row.saga_id:
        row.status, row.borrowed_by, row.borrowed_at = status, "", None
