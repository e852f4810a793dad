"""What holds for SQLite: groups, files, failing disks."""

from __future__ import annotations

import asyncio
import sqlite3
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mooring.errors import Conflict, Unavailable
from mooring.store.base import Store, after_commit, open_store
from tests.store import boats
from tests.store.conftest import Points

pytestmark = pytest.mark.anyio


@pytest.fixture
def location(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture
def service() -> str:
    return "test"


class Gate:
    """A write that holds the writer until the test has filled the queue behind it."""

    def __init__(self) -> None:
        self.reached, self.open = threading.Event(), threading.Event()

    def __call__(self, tx: Session) -> None:
        tx.execute(text("SELECT 1"))
        self.reached.set()
        assert self.open.wait(10)


def divide(_: Session) -> float:
    return 1 / 0


async def fill(store: Store, *writes: Callable[[Session], object]) -> list[object]:
    """Return the results of writes that waited together, and so are committed together."""
    gate = Gate()
    first = asyncio.create_task(store.write(gate))
    await asyncio.to_thread(gate.reached.wait)
    waiting = [asyncio.create_task(store.write(fn)) for fn in writes]
    await asyncio.sleep(0)
    gate.open.set()
    await first
    return list(await asyncio.gather(*waiting, return_exceptions=True))


async def test_waiting_writes_share_a_commit(store: Store, probe: Points) -> None:
    probe.passed.clear()
    commits = store.commits
    results = await fill(store, *[boats.sail] * 20)
    assert results == list(range(1, 21))
    assert store.commits - commits == 21
    assert probe.passed.count("store.test/commit/after") == 2


async def test_one_failing_write_takes_back_only_itself(store: Store) -> None:
    heard: list[str] = []

    def sail_and_fail(tx: Session) -> None:
        boats.sail(tx)
        tx.flush()
        after_commit(tx, lambda: heard.append("wrong"))
        raise Conflict("no")

    def sail_and_tell(tx: Session) -> int:
        after_commit(tx, lambda: heard.append("right"))
        return boats.sail(tx)

    results = await fill(
        store, boats.sail, sail_and_fail, boats.add("ark"), boats.add("bounty"), sail_and_tell
    )
    assert results[0] == 1
    assert isinstance(results[1], Conflict)
    assert isinstance(results[2], IntegrityError)
    assert results[3:] == [None, 2]
    assert heard == ["right"]
    assert await boats.names(store) == ["ark", "bounty"]


async def test_a_failed_commit_fails_the_whole_group(store: Store, probe: Points) -> None:
    def fail() -> None:
        if len(probe.passed) > 2:
            raise sqlite3.OperationalError("disk I/O error")

    probe.passed.clear()
    probe.then["commit/before"] = fail
    results = await fill(store, boats.sail, divide, boats.add("bounty"))
    assert isinstance(results[1], ZeroDivisionError)
    assert all(isinstance(result, Exception) for result in results)
    probe.then.clear()
    assert await boats.names(store) == ["ark"]
    assert await boats.trips(store) == 0


async def test_a_full_disk_is_unavailable_and_harms_nobody_behind_it(store: Store) -> None:
    def cap(tx: Session) -> None:
        pages = tx.execute(text("PRAGMA page_count")).scalar_one()
        tx.execute(text(f"PRAGMA max_page_count={pages}"))

    def write_much(tx: Session) -> None:
        tx.add(boats.Boat(name="whale", log="x" * 100_000))

    results = await fill(store, cap, boats.sail, write_much, boats.sail, boats.sail)
    assert isinstance(results[2], Unavailable)
    assert "no room" in results[2].public
    # SQLite took back the whole transaction: those before it fail too, those behind are served.
    assert isinstance(results[1], Unavailable)
    assert results[3:] == [1, 2]
    assert await boats.names(store) == ["ark"]


async def test_a_full_disk_is_unavailable_for_a_write_of_its_own(store: Store) -> None:
    def cap(tx: Session, pages: int) -> None:
        tx.execute(text(f"PRAGMA max_page_count={pages}"))

    await store.write(lambda tx: cap(tx, 1))
    with pytest.raises(Unavailable, match="no room"):
        await store.write(lambda tx: tx.add(boats.Boat(name="whale", log="x" * 100_000)))
    await store.write(lambda tx: cap(tx, 100_000))
    assert await store.write(boats.sail) == 1
    assert await boats.names(store) == ["ark"]


async def test_a_table_that_sqlite_misses_could_not_be_read(store: Store) -> None:
    """All are there since the file was opened; while it cannot read which, SQLite misses each."""
    with pytest.raises(Unavailable, match="its tables could not be read"):
        await store.read(lambda tx: tx.execute(text("SELECT 1 FROM ships")))
    with pytest.raises(Unavailable, match="its tables could not be read"):
        await store.write(lambda tx: tx.execute(text("INSERT INTO ships VALUES (1)")))


async def test_a_file_locked_by_another_process_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mooring.limits.STORE_BUSY_TIMEOUT_S", 0.01)
    store = await open_store(str(tmp_path), "test")
    await store.write(boats.build)
    other = sqlite3.connect(tmp_path / "test.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(Unavailable, match="another process"):
        await store.write(boats.sail)
    assert await boats.trips(store) == 0
    other.execute("ROLLBACK")
    other.close()
    assert await store.write(boats.sail) == 1
    await store.close()


async def test_a_damaged_file_is_unavailable_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "test.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(Unavailable, match="not a database"):
        await open_store(str(tmp_path), "test")


async def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="nowhere"):
        await open_store(str(tmp_path / "nowhere"), "test")


async def test_commits_reach_the_disk_and_keys_hold(store: Store, tmp_path: Path) -> None:
    def settings(tx: Session) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return [tx.execute(text(f"PRAGMA {name}")).scalar_one() for name in names]

    assert await store.write(settings) == ["wal", 2, 1]
    assert stat.S_IMODE((tmp_path / "test.sqlite").stat().st_mode) == 0o600


async def test_without_threads_the_order_is_that_of_asking(tmp_path: Path) -> None:
    store = await open_store(str(tmp_path), "test", inline=True)
    await store.write(boats.build)
    heard: list[object] = []
    here = threading.current_thread()

    def sail(tx: Session) -> int:
        assert threading.current_thread() is here
        after_commit(tx, lambda: heard.append("committed"))
        return boats.sail(tx)

    async def ask(name: str) -> None:
        heard.append((name, await store.write(sail)))
        heard.append((name, await boats.trips(store)))

    await asyncio.gather(ask("a"), ask("b"))
    assert heard == [
        "committed", "committed", ("a", 1), ("b", 2), ("a", 2), ("b", 2)
    ]  # fmt: skip
    with pytest.raises(IntegrityError):
        await store.write(boats.add("ark"))
    assert await store.write(boats.sail) == 3
    await store.close()
    with pytest.raises(Unavailable):
        await store.write(boats.sail)


@pytest.mark.parametrize("place", ["head", "middle"])
async def test_a_damaged_file_is_named_when_it_is_opened(
    place: str, location: str, service: str
) -> None:
    store = await open_store(location, service)
    await store.close()
    file = Path(location) / f"{service}.sqlite"
    content = bytearray(file.read_bytes())
    at = 0 if place == "head" else 4096
    content[at : at + 2000] = b"\xff" * 2000
    file.write_bytes(content)
    with pytest.raises(Unavailable, match=rf"{file} is damaged: .*backup"):
        await open_store(location, service)
