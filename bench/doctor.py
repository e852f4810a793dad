"""What the doctor's comparison costs for each server, among many of them beside among few.

One server with a volume is made and looked at; what was seen is copied under other ids, with an
operation under way, and a debt of another host, for each. Nothing of it disagrees, and a comparison
that finds something is refused: it would have measured something else.
"""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from bench.inside import HOST, Inside, open_inside
from bench.machine import scratch
from bench.rows import Row, tell
from mooring.doctor.books import Books, Work, read
from mooring.doctor.examine import compare
from mooring.saga.define import REGISTRY

FEW, MANY = 1_000, 10_000
ROUNDS = 5
RATIO = 1.5
"""Budget for what one server costs among many, as many times as among few."""
PAGES = ("servers", "devices", "volumes", "attachments", "allocations")
LISTS = ("guests", "volumes", "connections", "disks")


def rename(value: Any, names: Mapping[str, str]) -> Any:
    """Return plain data, or a Struct of an agent, with other ids in each of its texts."""
    if isinstance(value, str):
        for old, new in names.items():
            value = value.replace(old, new)
        return value
    if isinstance(value, dict):
        pairs = cast("dict[Any, Any]", value).items()
        return {rename(key, names): rename(one, names) for key, one in pairs}
    if isinstance(value, list):
        return [rename(one, names) for one in cast("list[Any]", value)]
    if isinstance(value, Struct):
        fields = value.__struct_fields__
        return replace(value, **{name: rename(getattr(value, name), names) for name in fields})
    return value


def multiply(seen: Books, count: int) -> Books:
    """Return what would be seen of so many servers like the one that was."""
    ids = [key for page in PAGES for key in getattr(seen, page)]
    pages: dict[str, dict[str, Any]] = {name: {} for name in PAGES}
    lists: dict[str, list[Any]] = {name: [] for name in LISTS}
    here = seen.inventories[HOST]
    for _ in range(count):
        names = {one: str(uuid.uuid4()) for one in ids}
        for name, rows in pages.items():
            rows.update(rename(getattr(seen, name), names))
        for name in LISTS:
            lists[name] += rename(getattr(here, name), names)
    name, version = next(iter(REGISTRY))
    busy = [
        Work(str(each), "compute", name, version, stuck=False, held=(f"server:{each}",))
        for each in range(count)
    ]
    debts = {str(each): {"host": HOST, "resource": f"/servers/{each}"} for each in range(count)}
    inventories = {HOST: replace(here, **lists)}
    return replace(seen, **pages, inventories=inventories, work=busy, debts=debts)


async def look(cloud: Inside) -> Books:
    """Make a server with a volume, and return what is seen of both."""
    server_id = await cloud.make_server(await cloud.make_image())
    volume_id = await cloud.make_volume()
    await cloud.rest()
    path = f"/compute/v2.1/servers/{server_id}/os-volume_attachments"
    await cloud.ask("POST", path, {"volumeAttachment": {"volumeId": volume_id}})
    await cloud.rest()
    opened = cloud.cloud
    now = opened.clock.now()
    return await read(opened.stores, opened.agents, now, opened.settings)


def cost(seen: Books) -> float:
    """Return the CPU, in ms, of a comparison, the least of several."""
    took: list[float] = []
    for _ in range(ROUNDS):
        fresh = replace(seen)
        begun = time.process_time()
        found = compare(fresh)
        took.append((time.process_time() - begun) * 1000)
        if found:
            raise RuntimeError(f"what was copied disagrees: {sorted(found)[:3]}")
    return min(took)


async def run() -> None:
    """Look once, and compare for few and for many."""
    with scratch() as directory:
        async with open_inside(directory) as cloud:
            seen = await look(cloud)
    few, many = cost(multiply(seen, FEW)), cost(multiply(seen, MANY))
    note = f"CPU {few:.0f} ms of {FEW}, {many:.0f} ms of {MANY}"
    times = (many / MANY) / (few / FEW)
    what = f"the doctor's comparison among {MANY} servers, for each, in times of {FEW}"
    tell(Row(what=what, measured=times, unit="x", budget=RATIO, note=note))


if __name__ == "__main__":
    sys.exit(asyncio.run(run()))
