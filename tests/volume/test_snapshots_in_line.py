"""What is looked at some at a time: those that cannot go on keep nobody waiting."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from mooring.volume.app import SERVICE
from mooring.volume.snapshots.loops import remove_leaving, settle_snapshots
from mooring.volume.tables import BackendRow, SnapshotRow, VolumeRow
from tests.cloud import SimulatedCloud
from tests.volume.backing_up import SNAPSHOTS, make_volume, snapshot_of

pytestmark = pytest.mark.anyio
GONE = "gone@pool"
"""A pool whose host nobody knows any more."""


@pytest.fixture
async def cloud(tmp_path: Path, database: str, anyio_backend: str) -> AsyncIterator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path, database=database) as opened:
        yield opened


@pytest.fixture(autouse=True)
def one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remove_leaving, "_AT_ONCE", 1)
    monkeypatch.setattr(settle_snapshots, "_AT_ONCE", 1)


async def snapshots(cloud: SimulatedCloud, count: int) -> list[str]:
    """Return snapshots of a volume each, in order of their ids."""
    return sorted([await snapshot_of(cloud, await make_volume(cloud)) for _ in range(count)])


async def write(cloud: SimulatedCloud, snapshot_id: str, **values: Any) -> None:
    change = update(SnapshotRow).where(SnapshotRow.id == snapshot_id).values(**values)
    await cloud.cloud.stores["volume"].write(lambda tx: tx.execute(change) and None)


async def lose_host(cloud: SimulatedCloud, snapshot_id: str) -> None:
    """Let a snapshot's volume be at a host that is gone; its pool is still written down."""
    shown = (await cloud.ask("GET", f"{SNAPSHOTS}/{snapshot_id}")).key("snapshot")
    change = update(VolumeRow).where(VolumeRow.id == shown["volume_id"]).values(backend=GONE)

    def lose(tx: Session) -> None:
        tx.execute(change)
        [pool] = tx.scalars(select(BackendRow).where(BackendRow.name != GONE))
        kept = {column.key: getattr(pool, column.key) for column in BackendRow.__table__.columns}
        tx.merge(BackendRow(**{**kept, "name": GONE, "host": "gone", "problem": "it is gone"}))

    await cloud.cloud.stores["volume"].write(lose)


async def status(cloud: SimulatedCloud, snapshot_id: str) -> str:
    answer = await cloud.ask("GET", f"{SNAPSHOTS}/{snapshot_id}")
    return "" if answer.status == 404 else answer.key("snapshot")["status"]


async def test_a_leaving_snapshot_at_a_dead_pool_keeps_no_other_from_going(
    cloud: SimulatedCloud,
) -> None:
    [dead, living] = await snapshots(cloud, 2)
    now = cloud.clock.now()
    for snapshot_id, age_s in ((dead, 3000.0), (living, 1000.0)):
        since = now - timedelta(seconds=age_s)
        await write(cloud, snapshot_id, leaves_since=since, updated_at=since)
    await lose_host(cloud, dead)
    await remove_leaving.remove_leaving(cloud.cloud[SERVICE])
    await cloud.settle()
    assert [await status(cloud, one) for one in (dead, living)] == ["available", ""]


async def test_a_leaving_snapshot_that_rests_keeps_no_other_from_going(
    cloud: SimulatedCloud,
) -> None:
    [resting, due] = await snapshots(cloud, 2)
    now = cloud.clock.now()
    long_since, tried = now - timedelta(days=1), now - timedelta(seconds=300)
    await write(cloud, resting, leaves_since=long_since, updated_at=tried)
    lately = now - timedelta(seconds=200)
    await write(cloud, due, leaves_since=lately, updated_at=lately)
    await remove_leaving.remove_leaving(cloud.cloud[SERVICE])
    await cloud.settle()
    assert [await status(cloud, one) for one in (resting, due)] == ["available", ""]


async def test_a_borrowed_snapshot_at_a_dead_host_keeps_no_other_from_being_settled(
    cloud: SimulatedCloud,
) -> None:
    first, second, living = await snapshots(cloud, 3)
    now = cloud.clock.now()
    for age_s, snapshot_id in enumerate((living, second, first), start=1000):
        since = now - timedelta(seconds=age_s)
        await write(cloud, snapshot_id, status="deleting", borrowed_by="u", borrowed_at=since)
    for snapshot_id in (first, second):
        await lose_host(cloud, snapshot_id)
    await settle_snapshots.settle_snapshots(cloud.cloud[SERVICE], now - timedelta(seconds=600))
    found = [await status(cloud, one) for one in (first, second, living)]
    assert found == ["deleting", "deleting", "available"]
