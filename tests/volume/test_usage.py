"""What a new volume costs the database does not depend on how many there are."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from tests.callers import PROJECT
from tests.volume.cloud import VolumeCloud

pytestmark = pytest.mark.anyio


async def sums_of_a_new_volume(cloud: VolumeCloud) -> list[str]:
    """Make a volume; return the statements that summed up volumes' sizes for it."""
    asked: list[str] = []

    def listen(tx: Session) -> None:
        driver = tx.connection().connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.set_trace_callback(asked.append)

    await cloud.store.write(listen)
    await cloud.make()
    return [statement for statement in asked if "sum(volumes.size_gib)" in statement]


async def plan_of(cloud: VolumeCloud, statement: str) -> str:
    """Return how SQLite runs a statement."""

    def look(tx: Session) -> str:
        rows = tx.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}")
        return "\n".join(row[3] for row in rows)

    return await cloud.store.read(look)


async def test_sizes_are_summed_up_from_indices_that_have_them(cloud: VolumeCloud) -> None:
    limits = {"volumes": 5, "gigabytes___DEFAULT__": 50}
    await cloud.ask("PUT", f"/os-quota-sets/{PROJECT}", {"quota_set": limits}, user="admin")
    sums = await sums_of_a_new_volume(cloud)
    plans = [await plan_of(cloud, statement) for statement in sums]
    read = [line for plan in plans for line in plan.splitlines() if " volumes " in line]
    whole = "SEARCH volumes USING COVERING INDEX"
    assert sorted(line for line in read if "(id=?)" not in line) == [
        f"{whole} volumes_of_backend (backend=?)",
        f"{whole} volumes_used (project_id=? AND volume_type_id=?)",
        f"{whole} volumes_used (project_id=?)",
        "SEARCH volumes USING INDEX volumes_moving (moves_to>?)",
    ]


async def test_what_has_no_limit_is_not_summed_up(cloud: VolumeCloud) -> None:
    limits = {"volumes": -1, "gigabytes": -1}
    await cloud.ask("PUT", f"/os-quota-sets/{PROJECT}", {"quota_set": limits}, user="admin")
    [pools] = await sums_of_a_new_volume(cloud)
    assert "project_id" not in pools


async def test_a_pool_is_not_searched_for_what_grows(cloud: VolumeCloud) -> None:
    sums = await sums_of_a_new_volume(cloud)
    [pools] = [statement for statement in sums if "backends" in statement]
    plan = await plan_of(cloud, pools)
    assert "SCAN reservations" in plan
    assert "SCAN volumes" not in plan


async def test_what_grows_takes_room_from_its_pool(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make(size=2)

    async def provisioned() -> int:
        found = await cloud.ask("GET", "/scheduler-stats/get_pools?detail=true", user="admin")
        return found.body["pools"][0]["capabilities"]["provisioned_capacity_gb"]

    def reserve(tx: Session) -> None:
        row = "SELECT 'r', project_id, id, volume_type_id, 3, 's', created_at FROM volumes"
        columns = "id, project_id, volume_id, volume_type_id, delta_gib, saga_id, created_at"
        tx.execute(
            text(f"INSERT INTO reservations ({columns}) {row} WHERE id = :id"), {"id": volume_id}
        )

    assert await provisioned() == 2
    await cloud.store.write(reserve)
    assert await provisioned() == 5
