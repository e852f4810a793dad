"""What one transaction costs on this machine, beside what its disk takes to keep a promise."""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from sqlalchemy import select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from mooring.fence.journal import Answer, Journal
from mooring.fence.operation import Operation
from mooring.store.base import Store, open_store, service_base

ROUNDS = 300
Base = service_base("bench")


class Row(Base):
    """One row that is read, then changed by a guarded update: what a saga step does."""

    __tablename__ = "rows"

    id: Mapped[str] = mapped_column(primary_key=True)
    status: Mapped[str]
    turns: Mapped[int]


def build(tx: Session) -> None:
    """Make the table."""
    Base.metadata.drop_all(tx.connection())
    Base.metadata.create_all(tx.connection())
    tx.add(Row(id="a", status="idle", turns=0))


def step(tx: Session) -> None:
    """Read the row and move it on."""
    turns = tx.scalars(select(Row.turns).where(Row.id == "a")).one()
    tx.execute(update(Row).where(Row.id == "a", Row.status == "idle").values(turns=turns + 1))


def look(tx: Session) -> None:
    """Read the row."""
    tx.execute(select(Row.id, Row.status, Row.turns)).all()


def flush_ms(directory: Path) -> float:
    """Return the median of this disk's fdatasync, in ms."""
    spent: list[float] = []
    file = os.open(directory / "flush", os.O_WRONLY | os.O_CREAT, 0o600)
    for _ in range(ROUNDS):
        os.write(file, b"x" * 4096)
        start = time.perf_counter()
        os.fdatasync(file)
        spent.append(time.perf_counter() - start)
    os.close(file)
    return statistics.median(spent) * 1000


async def each_ms(work: Callable[[], Awaitable[object]]) -> float:
    """Return the median of one after the other, in ms."""
    spent: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        await work()
        spent.append(time.perf_counter() - start)
    return statistics.median(spent) * 1000


async def together_per_s(work: Callable[[], Awaitable[object]]) -> float:
    """Return how many a second are done when all wait at once."""
    start = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(ROUNDS * 4)))
    return ROUNDS * 4 / (time.perf_counter() - start)


async def measure(store: Store, flush: float) -> None:
    """Print what one store does."""
    await store.write(build)
    write = await each_ms(lambda: store.write(step))
    read = await each_ms(lambda: store.read(look))
    rate = await together_per_s(lambda: store.write(step))
    print(f"{store.kind}: a write {write:.2f} ms ({write / flush:.1f} x fdatasync)")
    print(f"{store.kind}: a read {read:.2f} ms")
    print(f"{store.kind}: {rate:.0f} writes/s when {ROUNDS * 4} wait at once")
    await store.close()


async def measure_journal(path: Path, flush: float) -> None:
    """Print what an agent's journal adds to a verb."""
    journal = Journal(path)
    calls = iter(range(ROUNDS))

    async def plug() -> Answer:
        return Answer()

    async def perform() -> Answer:
        operation = Operation("bench", f"step{next(calls)}", 1, 1)
        return await journal.perform(operation, "PUT", "servers/1", plug)

    verb = await each_ms(perform)
    print(f"journal: a fenced verb {verb:.2f} ms ({verb / flush:.1f} x fdatasync)")
    await journal.close()


async def main() -> None:
    """Measure SQLite, and PostgreSQL where an argument gives its URL."""
    with tempfile.TemporaryDirectory(dir=".") as directory:
        flush = flush_ms(Path(directory))
        print(f"disk: fdatasync {flush:.2f} ms")
        await measure(await open_store(directory, "bench"), flush)
        await measure_journal(Path(directory) / "journal.sqlite", flush)
        for url in sys.argv[1:]:
            await measure(await open_store(url, "bench"), flush)


if __name__ == "__main__":
    asyncio.run(main())
