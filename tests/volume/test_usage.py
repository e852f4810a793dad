"""What a new volume costs the database does not depend on how many there are."""

from __future__ import annotations

import sqlite3

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from tests.volume.dock import PROJECT, Dock

pytestmark = pytest.mark.anyio


async def sums_of_a_new_volume(dock: Dock) -> list[str]:
    """Make a volume; return the statements that summed up volumes' sizes for it."""
    asked: list[str] = []

    def listen(tx: Session) -> None:
        driver = tx.connection().connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.set_trace_callback(asked.append)

    await dock.store.write(listen)
    await dock.make()
    return [statement for statement in asked if "sum(volumes.size_gib)" in statement]


async def plan_of(dock: Dock, statement: str) -> str:
    """Return how SQLite runs a statement."""

    def look(tx: Session) -> str:
        rows = tx.connection().exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}")
        return "\n".join(row[3] for row in rows)

    return await dock.store.read(look)


async def test_sizes_are_summed_up_from_indices_that_have_them(dock: Dock) -> None:
    limits = {"volumes": 5, "gigabytes___DEFAULT__": 50}
    await dock.ask("PUT", f"/os-quota-sets/{PROJECT}", {"quota_set": limits}, who="admin")
    sums = await sums_of_a_new_volume(dock)
    plans = [await plan_of(dock, statement) for statement in sums]
    read = [line for plan in plans for line in plan.splitlines() if " volumes " in line]
    whole = "SEARCH volumes USING COVERING INDEX"
    assert sorted(line for line in read if "(id=?)" not in line) == [
        f"{whole} volumes_of_backend (backend=?)",
        f"{whole} volumes_used (project_id=? AND volume_type_id=?)",
        f"{whole} volumes_used (project_id=?)",
    ]


async def test_what_has_no_limit_is_not_summed_up(dock: Dock) -> None:
    limits = {"volumes": -1, "gigabytes": -1}
    await dock.ask("PUT", f"/os-quota-sets/{PROJECT}", {"quota_set": limits}, who="admin")
    [pools] = await sums_of_a_new_volume(dock)
    assert "project_id" not in pools


async def test_a_pool_is_not_searched_for_what_grows(dock: Dock) -> None:
    sums = await sums_of_a_new_volume(dock)
    [pools] = [statement for statement in sums if "backends" in statement]
    plan = await plan_of(dock, pools)
    assert "SCAN reservations" in plan
    assert "SCAN volumes" not in plan


async def test_what_grows_takes_room_from_its_pool(dock: Dock) -> None:
    volume_id = await dock.make(size=2)

    async def provisioned() -> int:
        found = await dock.ask("GET", "/scheduler-stats/get_pools?detail=true", who="admin")
        return found.json["pools"][0]["capabilities"]["provisioned_capacity_gb"]

    def reserve(tx: Session) -> None:
        row = "SELECT 'r', project_id, id, volume_type_id, 3, 's', created_at FROM volumes"
        columns = "id, project_id, volume_id, volume_type_id, delta_gib, saga_id, created_at"
        tx.execute(
            text(f"INSERT INTO reservations ({columns}) {row} WHERE id = :id"), {"id": volume_id}
        )

    assert await provisioned() == 2
    await dock.store.write(reserve)
    assert await provisioned() == 5
