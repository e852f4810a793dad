"""How long GET /servers/detail takes with 1, 100 and 1000 servers on its page."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy import Table, insert, select
from sqlalchemy.orm import Session

from bench.inside import Inside, open_inside
from bench.machine import median, scratch
from bench.rows import Row, tell
from mooring.compute.tables import BlockDevice, Server

SIZES = {1: 3, 100: 8, 1000: 60}
"""Servers on the page, and the budget for it in ms."""

ROUNDS = 15
PATH = "/compute/v2.1/servers/detail?limit=1000"


def multiply(tx: Session, server_id: str, copies: int) -> None:
    """Copy a server's row and those of its block devices: making each would take a minute."""
    servers, devices = cast("Table", Server.__table__), cast("Table", BlockDevice.__table__)
    server = _row(tx, servers, servers.c.id == server_id)[0]
    theirs = _row(tx, devices, devices.c.server_id == server_id)
    fresh = [str(uuid.uuid4()) for _ in range(copies)]
    _insert(tx, servers, [{**server, "id": new} for new in fresh])
    _insert(
        tx,
        devices,
        [
            {**device, "id": str(uuid.uuid4()), "server_id": new}
            for new in fresh
            for device in theirs
        ],
    )


def _row(tx: Session, table: Table, where: Any) -> list[dict[str, Any]]:
    numbered = {"position"}
    found: list[Mapping[Any, Any]] = list(tx.execute(select(table).where(where)).mappings())
    return [{str(k): v for k, v in row.items() if str(k) not in numbered} for row in found]


def _insert(tx: Session, table: Table, rows: list[dict[str, Any]]) -> None:
    if rows:
        tx.execute(insert(table), rows)


async def look(cloud: Inside, size: int) -> tuple[float, float]:
    """Ask once and return wall and CPU in ms. Raises RuntimeError for another number of servers."""
    cpu, wall = time.process_time(), time.perf_counter()
    answer = await cloud.ask("GET", PATH)
    spent = (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000
    shown: list[Any] = answer["servers"]
    if len(shown) != size:
        raise RuntimeError(f"the page has {len(shown)} servers, not {size}")
    return spent


async def measure(cloud: Inside) -> list[Row]:
    """Return the rows."""
    server = await cloud.make_server(await cloud.make_image())
    await cloud.rest()
    store, there, rows = cloud.cloud.stores["compute"], 1, list[Row]()
    for size, budget in SIZES.items():
        more = size - there
        await store.write(lambda tx, more=more: multiply(tx, server, more))
        there = size
        await look(cloud, size)
        looks = [await look(cloud, size) for _ in range(ROUNDS)]
        walls, cpus = [wall for wall, _ in looks], [cpu for _, cpu in looks]
        what = f"GET /servers/detail, {size} server{'s' if size > 1 else ''}"
        note = f"CPU {median(cpus):.1f} ms, the client's decoding of JSON with it"
        rows.append(Row(what=what, measured=median(walls), unit="ms", budget=budget, note=note))
    return rows


async def run() -> None:
    """Open a cloud and measure."""
    with scratch() as directory:
        async with open_inside(directory) as cloud:
            tell(*await measure(cloud))


if __name__ == "__main__":
    asyncio.run(run())
