"""Delete the snapshots again that were to go and could not: their server's host was down, say.

They were taken for a backup of a volume in use, or for an image of a server which then failed, and
nobody but this service knows that nobody needs them. What a user took is the user's affair.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.errors import MooringError
from mooring.volume.backends import backends
from mooring.volume.snapshots.sagas import deleting
from mooring.volume.tables import BackendRow, SnapshotRow, VolumeRow

if TYPE_CHECKING:
    from datetime import datetime

    from mooring.volume.service import Volume

log = structlog.get_logger()
_FIRST_S, _LONGEST_S = 60.0, 900.0
"""How long one rests between two tries: a quarter of the time since it was to go, in these bounds.
"""
_AT_ONCE = 100


async def remove_leaving(volume: Volume) -> None:
    """Begin to delete what was to go and is still there, once its pool answers."""
    now = volume.clock.now()
    for snapshot_id in await volume.store.read(lambda tx: _find(tx, volume, now)):
        try:
            await volume.sagas.submit(lambda tx, it=snapshot_id: _begin(tx, volume, it, now))
        except MooringError as error:
            log.info("snapshot stays for now", snapshot=snapshot_id, error=str(error))


def _find(tx: Session, volume: Volume, now: datetime) -> list[str]:
    pools = [pool for pool in tx.scalars(select(BackendRow)) if _is_up(pool, volume, now)]
    query = (
        select(SnapshotRow)
        .join(VolumeRow, VolumeRow.id == SnapshotRow.volume_id)
        .where(SnapshotRow.leaves_since.is_not(None), SnapshotRow.saga_id == "")
        .where(VolumeRow.backend.in_([pool.name for pool in pools]))
        .order_by(SnapshotRow.id)
        .limit(_AT_ONCE)
    )
    found, last = list[str](), ""
    # Those that are not due may stand before others that are: page by page, until there are some.
    while len(found) < _AT_ONCE and (page := list(tx.scalars(query.where(SnapshotRow.id > last)))):
        found += [row.id for row in page if _is_due(row, now)]
        last = page[-1].id
    return found


def _is_up(pool: BackendRow, volume: Volume, now: datetime) -> bool:
    return backends.is_up(pool, volume.settings, now)


def _is_due(row: SnapshotRow, now: datetime) -> bool:
    if row.leaves_since is None or row.saga_id or row.status not in deleting.DELETABLE:
        return False
    waited_s = (now - row.leaves_since).total_seconds() / 4
    pause = timedelta(seconds=min(_LONGEST_S, max(_FIRST_S, waited_s)))
    return row.updated_at is None or row.updated_at + pause <= now


def _begin(tx: Session, volume: Volume, snapshot_id: str, now: datetime) -> None:
    # The service's own: whoever has its project did not ask.
    row = tx.get(SnapshotRow, snapshot_id, populate_existing=True, with_for_update=True)
    if row is not None and _is_due(row, now):
        deleting.begin(tx, volume, row, None)
