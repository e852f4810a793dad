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

from mooring.errors import MooringError, Unavailable
from mooring.volume.backends import backends
from mooring.volume.tables import SnapshotRow, VolumeRow

if TYPE_CHECKING:
    from mooring.volume.service import Volume

log = structlog.get_logger()
_AT_ONCE = 100


async def settle_snapshots(volume: Volume, before: datetime) -> None:
    """Settle what was borrowed before a moment."""
    # A host that does not answer is asked once, and keeps nobody from those of the others.
    silent, last = set[str](), ""
    while found := await volume.store.read(lambda tx, last=last: _find(tx, before, last)):
        for row, backend in found:
            host = backends.split(backend)[0]
            if host not in silent and not await _settle_one(volume, row, host):
                silent.add(host)
        last = found[-1][0].id


async def _settle_one(volume: Volume, row: SnapshotRow, host: str) -> bool:
    """Settle a snapshot, if its host tells of it; return whether that answers at all."""
    try:
        status = await _ask(volume, row, host)
    except MooringError as error:
        log.info("snapshot is left for later", snapshot=row.id, error=str(error))
        return not isinstance(error, Unavailable)
    await volume.store.write(lambda tx: _settle(tx, row, status))
    log.info("left-behind snapshot was settled", snapshot=row.id, status=status)
    return True


def _find(tx: Session, before: datetime, last: str) -> list[tuple[SnapshotRow, str]]:
    """Return some with their pools, in order of their ids, from behind the `last` one."""
    query = (
        select(SnapshotRow, VolumeRow.backend)
        .join(VolumeRow, VolumeRow.id == SnapshotRow.volume_id)
        .where(SnapshotRow.borrowed_at < before, SnapshotRow.saga_id == "")
        .where(SnapshotRow.id > last)
        .order_by(SnapshotRow.id)
    )
    return [(row, backend or "") for row, backend in tx.execute(query.limit(_AT_ONCE))]


async def _ask(volume: Volume, row: SnapshotRow, host: str) -> str:
    agent = volume.agents[host]
    known = await agent.show_snapshot(row.volume_id, row.id)
    if known is not None and known.state == "taken":
        return "available"
    return "error" if row.status == "creating" else "error_deleting"


def _settle(tx: Session, seen: SnapshotRow, status: str) -> None:
    row = tx.get(SnapshotRow, seen.id, populate_existing=True, with_for_update=True)
    if row is not None and row.borrowed_at == seen.borrowed_at and not row.saga_id:
        row.status, row.borrowed_by, row.borrowed_at = status, "", None
