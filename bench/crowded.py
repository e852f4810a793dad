"""What 10,000 volumes cost who asks for something else: the doctor's look, and one more volume.

The doctor reads every row and every host, in the process that answers requests. What counts is how
long a request waits meanwhile, beside how long one waits without a doctor.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import time
import uuid
from collections.abc import Mapping
from typing import Any, cast

from sqlalchemy import Table, insert, select
from sqlalchemy.orm import Session

from bench.inside import Inside, open_inside
from bench.machine import median, scratch
from bench.rows import Row, tell
from mooring.doctor.examine import look
from mooring.volume.tables import VolumeRow

VOLUMES = 10_000
LOOKS = 3
REQUESTS = 60
MAKES = 25
PATH = "/volume/v3/volumes?limit=1"
SLOWEST_MS = 75.0
"""Budget for the slowest request beside a doctor."""
RATIO = 1.5
"""Budget for what one more volume or server costs beside 10,000, as many times as beside none."""


def multiply(tx: Session, volume_id: str, copies: int) -> None:
    """Copy a volume's row: making each would take minutes."""
    table = cast("Table", VolumeRow.__table__)
    query = select(table).where(table.c.id == volume_id)
    found: Mapping[Any, Any] = tx.execute(query).mappings().one()
    row = {str(name): value for name, value in found.items()}
    fresh = [{**row, "id": str(uuid.uuid4()), "name": "copy"} for _ in range(copies)]
    tx.execute(insert(table), fresh)


async def ask_for(cloud: Inside, until: asyncio.Event) -> list[float]:
    """Ask again and again until something has happened; return how long each took, in ms."""
    took: list[float] = []
    while not until.is_set() or len(took) < REQUESTS:
        begun = time.perf_counter()
        await cloud.ask("GET", PATH)
        took.append((time.perf_counter() - begun) * 1000)
        await asyncio.sleep(0.002)
    return took


async def beside_doctor(cloud: Inside) -> tuple[list[float], list[float]]:
    """Return how long requests took without a doctor, and beside him."""
    calm = asyncio.Event()
    calm.set()
    alone = await ask_for(cloud, calm)
    over = asyncio.Event()
    asking = asyncio.create_task(ask_for(cloud, over))
    opened = cloud.cloud
    for _ in range(LOOKS):
        await look(opened.stores, opened.agents, opened.clock, opened.settings)
    over.set()
    return alone, await asking


async def make_some(cloud: Inside, image_id: str) -> tuple[float, float]:
    """Return the median CPU, in ms, of making a volume, and a server."""
    server = {"name": "s", "flavorRef": "42", "imageRef": image_id, "networks": "none"}
    volumes = [
        (await cloud.cost("POST", "/volume/v3/volumes", {"volume": {"size": 1}})).cpu_ms
        for _ in range(MAKES)
    ]
    servers = [
        (await cloud.cost("POST", "/compute/v2.1/servers", {"server": server})).cpu_ms
        for _ in range(MAKES)
    ]
    return median(volumes), median(servers)


async def measure(cloud: Inside) -> list[Row]:
    """Return the rows."""
    await cloud.lift_quotas()
    image_id = await cloud.make_image()
    made = await cloud.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
    await cloud.rest()
    await make_some(cloud, image_id)
    few = await make_some(cloud, image_id)
    volume_id = made["volume"]["id"]
    await cloud.cloud.stores["volume"].write(lambda tx: multiply(tx, volume_id, VOLUMES))
    many = await make_some(cloud, image_id)
    # As `mooring up` does once it is ready: what stays is looked through by no later collection.
    gc.collect()
    gc.freeze()
    alone, beside = await beside_doctor(cloud)
    note = f"median {median(beside):.1f} ms; without a doctor {median(alone):.1f} ms, "
    note += f"slowest {max(alone):.1f} ms"
    what = f"a request beside the doctor and {VOLUMES} volumes, the slowest"
    rows = [Row(what=what, measured=max(beside), unit="ms", budget=SLOWEST_MS, note=note)]
    for name, before, after in zip(("volume", "server"), few, many, strict=True):
        what = f"making a {name} beside {VOLUMES} volumes, as many times as beside few"
        note = f"CPU {after:.1f} ms, {before:.1f} ms before"
        rows.append(Row(what=what, measured=after / before, unit="x", budget=RATIO, note=note))
    return rows


async def run() -> None:
    """Open a cloud and measure."""
    with scratch() as directory:
        async with open_inside(directory) as cloud:
            tell(*await measure(cloud))


if __name__ == "__main__":
    sys.exit(asyncio.run(run()))
