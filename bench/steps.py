"""What one step of a saga costs on SQLite, with the commit that moves its bookmark."""

from __future__ import annotations

import asyncio
import time
from random import Random

from msgspec import Struct

from bench.machine import median, scratch
from bench.rows import Row, tell
from mooring.clock import RealClock
from mooring.probe import NoProbe
from mooring.saga.define import Each, Run, Saga, Step
from mooring.saga.engine import Engine
from mooring.saga.seal import Sealer
from mooring.store.base import Store, open_store

STEPS, SAGAS, TOGETHER = 20, 30, 40


class Notes(Struct, frozen=True):
    """How many steps to take."""

    steps: int = STEPS


async def breathe(notes: Notes, item: str, run: Run[None]) -> None:
    """Do nothing, outside the database: each such step is a turn and a commit of its own."""


SAGA = Saga(
    "bench.breathe",
    Notes,
    Each(
        "steps",
        lambda notes: [str(number) for number in range(notes.steps)],
        Step("breathe", breathe),
    ),
)


async def one_after_the_other(engine: Engine[None], store: Store) -> tuple[float, float]:
    """Return wall and CPU of a step, in ms, when one saga runs alone."""
    walls: list[float] = []
    cpus: list[float] = []
    for _ in range(SAGAS):
        cpu, wall = time.process_time(), time.perf_counter()
        saga_id = await store.write(lambda tx: engine.start(tx, SAGA, Notes()))
        await engine.ended(saga_id)
        walls.append((time.perf_counter() - wall) * 1000 / STEPS)
        cpus.append((time.process_time() - cpu) * 1000 / STEPS)
    return median(walls), median(cpus)


async def all_at_once(engine: Engine[None], store: Store) -> float:
    """Return the steps a second of many sagas."""
    start, few = time.perf_counter(), Notes(10)
    sagas = [await store.write(lambda tx: engine.start(tx, SAGA, few)) for _ in range(TOGETHER)]
    await asyncio.gather(*(engine.ended(saga_id) for saga_id in sagas))
    return TOGETHER * few.steps / (time.perf_counter() - start)


async def run() -> None:
    """Open an engine on a file and measure."""
    with scratch() as directory:
        store = await open_store(str(directory), "bench")
        engine: Engine[None] = Engine(
            "bench",
            None,
            store,
            clock=RealClock(),
            random=Random(1),  # noqa: S311  (jitter of retries)
            probe=NoProbe(),
            sealer=Sealer(b"b" * 32),
            owner="bench",
        )
        await engine.open()
        working = asyncio.create_task(engine.run())
        await one_after_the_other(engine, store)
        wall, cpu = await one_after_the_other(engine, store)
        rate = await all_at_once(engine, store)
        note = f"CPU {cpu:.2f} ms; {rate:.0f} steps/s when {TOGETHER} sagas run at once"
        tell(Row(what="saga step, with commit", measured=wall, unit="ms", budget=1.5, note=note))
        await engine.stop()
        await working
        await store.close()


if __name__ == "__main__":
    asyncio.run(run())
