"""What holds for a store on any database."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta, timezone

import pytest
from msgspec import Struct
from sqlalchemy import insert, select
from sqlalchemy.exc import IntegrityError, StatementError
from sqlalchemy.orm import Session

from mooring.errors import Bug, Conflict, Invalid, Unavailable
from mooring.store import failures
from mooring.store.base import Store, after_commit, open_store, savepoint
from tests.store import boats
from tests.store.boats import Boat
from tests.store.conftest import Points

pytestmark = pytest.mark.anyio


class Crash(BaseException):
    """The process has died, as far as the code under test can tell."""


def crash() -> None:
    raise Crash


async def test_200_concurrent_read_then_writes_all_succeed(store: Store) -> None:
    results = await asyncio.gather(*(store.write(boats.sail) for _ in range(200)))
    assert sorted(results) == list(range(1, 201))
    assert await boats.trips(store) == 200


async def test_commits_counts_each_committed_write(store: Store) -> None:
    before = store.commits
    await asyncio.gather(*(store.write(boats.sail) for _ in range(20)))
    with pytest.raises(IntegrityError):
        await store.write(boats.add("ark"))
    await boats.trips(store)
    assert store.commits - before == 20


async def test_an_exception_rolls_back_and_reaches_the_caller(store: Store) -> None:
    def sail_and_sink(tx: Session) -> None:
        boats.sail(tx)
        tx.flush()
        raise Conflict("The boat has sunk.")

    with pytest.raises(Conflict, match="sunk"):
        await store.write(sail_and_sink)
    assert await boats.trips(store) == 0


async def test_a_broken_constraint_at_the_last_flush_is_an_integrity_error(store: Store) -> None:
    with pytest.raises(IntegrityError):
        await store.write(lambda tx: tx.add(boats.Sailor(id=1, boat="nobody's")))


async def test_a_savepoint_inside_takes_back_only_itself(store: Store) -> None:
    def add_both(tx: Session) -> None:
        tx.add(Boat(name="bounty"))
        tx.flush()
        with pytest.raises(IntegrityError), tx.begin_nested():
            tx.execute(insert(Boat).values(name="ark", trips=0))

    await store.write(add_both)
    assert await boats.names(store) == ["ark", "bounty"]


async def test_a_cancelled_caller_does_not_cancel_the_write(store: Store) -> None:
    started, go_on = threading.Event(), threading.Event()
    heard: list[str] = []
    committed = asyncio.Event()

    def sail_slowly(tx: Session) -> None:
        started.set()
        assert go_on.wait(10)
        boats.sail(tx)
        after_commit(tx, lambda: heard.append("committed"))
        after_commit(tx, committed.set)

    caller = asyncio.create_task(store.write(sail_slowly))
    await asyncio.to_thread(started.wait)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert not heard
    go_on.set()
    await committed.wait()
    assert heard == ["committed"]
    assert await boats.trips(store) == 1


async def test_a_cancelled_reader_harms_nobody(store: Store) -> None:
    started, go_on = threading.Event(), threading.Event()

    def look_slowly(tx: Session) -> None:
        started.set()
        assert go_on.wait(10)
        tx.scalars(select(Boat)).all()

    caller = asyncio.create_task(store.read(look_slowly))
    await asyncio.to_thread(started.wait)
    caller.cancel()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert await boats.trips(store) == 0


async def test_callbacks_run_on_the_loop_in_order_before_the_writer_goes_on(store: Store) -> None:
    heard: list[str] = []
    loop_thread = threading.current_thread()

    def sail(tx: Session) -> None:
        boats.sail(tx)
        after_commit(tx, lambda: heard.append("first"))
        after_commit(tx, lambda: heard.append(threading.current_thread().name))

    await store.write(sail)
    heard.append("written")
    assert heard == ["first", loop_thread.name, "written"]


async def test_the_callbacks_of_a_savepoint_that_was_taken_back_never_run(store: Store) -> None:
    heard: list[str] = []

    def add_again(tx: Session) -> None:
        with savepoint(tx):
            after_commit(tx, lambda: heard.append("wrong"))
            tx.execute(insert(Boat).values(name="ark", trips=0))

    def add_both(tx: Session) -> None:
        after_commit(tx, lambda: heard.append("before"))
        with pytest.raises(IntegrityError):
            add_again(tx)
        with savepoint(tx):
            after_commit(tx, lambda: heard.append("inside"))

    await store.write(add_both)
    assert heard == ["before", "inside"]


async def test_callbacks_never_run_after_a_rollback(store: Store, probe: Points) -> None:
    heard: list[str] = []

    def sail(tx: Session) -> None:
        after_commit(tx, lambda: heard.append("wrong"))
        raise Conflict("no")

    with pytest.raises(Conflict):
        await store.write(sail)

    def sail_well(tx: Session) -> None:
        after_commit(tx, lambda: heard.append("wrong"))
        boats.sail(tx)

    probe.then["commit/before"] = crash
    with pytest.raises(Crash):
        await store.write(sail_well)
    assert not heard


async def test_a_failing_callback_costs_nobody_else_anything(store: Store) -> None:
    heard: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: heard.append(context["exception"]))
    failure = RuntimeError("a bad hint")

    def fail() -> None:
        raise failure

    def sail(tx: Session) -> int:
        after_commit(tx, fail)
        after_commit(tx, lambda: heard.append("second"))
        return boats.sail(tx)

    assert await store.write(sail) == 1
    assert heard == [failure, "second"]


async def test_a_crash_before_the_commit_leaves_nothing(
    store: Store, location: str, service: str, probe: Points
) -> None:
    probe.then["commit/before"] = crash
    with pytest.raises(Crash):
        await store.write(boats.sail)
    await store.close()
    reopened = await open_store(location, service)
    assert await boats.trips(reopened) == 0
    await reopened.close()


async def test_a_crash_after_the_commit_leaves_everything(
    store: Store, location: str, service: str, probe: Points
) -> None:
    probe.then["commit/after"] = crash
    with pytest.raises(Crash):
        await store.write(boats.sail)
    assert probe.passed[-2:] == [f"store.{service}/commit/before", f"store.{service}/commit/after"]
    await store.close()
    reopened = await open_store(location, service)
    assert await boats.trips(reopened) == 1
    await reopened.close()


async def test_the_store_serves_on_after_a_failed_commit(store: Store, probe: Points) -> None:
    probe.then["commit/before"] = crash
    with pytest.raises(Crash):
        await store.write(boats.sail)
    probe.then.clear()
    assert await store.write(boats.sail) == 1


async def test_a_read_sees_one_view_and_cannot_write(store: Store) -> None:
    loop = asyncio.get_running_loop()

    def look_twice(tx: Session) -> tuple[int, int]:
        first = tx.scalars(select(Boat.trips)).one()
        asyncio.run_coroutine_threadsafe(store.write(boats.sail), loop).result(10)
        return first, tx.scalars(select(Boat.trips)).one()

    assert await store.read(look_twice) == (0, 0)
    with pytest.raises(Bug) as caught:
        await store.read(boats.sail)
    assert "read" in caught.value.private
    assert await boats.trips(store) == 1


async def test_an_async_function_is_refused(store: Store) -> None:
    async def sail(_: Session) -> None: ...

    with pytest.raises(Bug, match="plain function"):
        await store.write(sail)


async def test_what_is_given_back_can_be_read_after_the_commit(store: Store) -> None:
    def find(tx: Session) -> Boat:
        boats.sail(tx)
        return tx.scalars(select(Boat)).one()

    assert (await store.write(find)).trips == 1
    assert (await store.read(lambda tx: tx.scalars(select(Boat)).one())).name == "ark"


async def test_times_are_aware_and_keep_their_order(store: Store) -> None:
    east = timezone(timedelta(hours=5))
    times = [
        datetime(2026, 1, 1, 4, 59, 59, 999999, tzinfo=east),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        datetime(2026, 10, 1, tzinfo=UTC),
    ]

    def add_all(tx: Session) -> None:
        tx.add_all(Boat(name=f"b{n}", seen_at=time) for n, time in enumerate(times))

    def in_order(tx: Session) -> list[datetime | None]:
        query = select(Boat.seen_at).where(Boat.seen_at <= times[-1]).order_by(Boat.seen_at)
        return list(tx.scalars(query))

    await store.write(add_all)
    found = await store.read(in_order)
    assert found == times
    assert {time.tzinfo for time in found if time} == {UTC}


async def test_a_naive_time_is_refused(store: Store) -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001  (the very thing to be refused)
    with pytest.raises(StatementError, match="without a zone"):
        await store.write(lambda tx: tx.add(Boat(name="lost", seen_at=naive)))


class Position(Struct):
    north: float
    names: list[str]


async def test_json_keeps_plain_data_and_structs(store: Store) -> None:
    data = {"ids": ["a", "ü"], "deep": {"n": 1, "none": None}, "big": 2**60}

    def fill(tx: Session) -> None:
        tx.add(Boat(name="b1", log=data))
        tx.add(Boat(name="b2", log=Position(1.5, ["x"])))
        tx.add(Boat(name="b3", log=None))

    await store.write(fill)
    found = await store.read(lambda tx: tx.scalars(select(Boat.log).order_by(Boat.name)).all())
    assert found[1:] == [data, {"north": 1.5, "names": ["x"]}, None]


async def test_a_whole_number_has_64_bits(store: Store) -> None:
    await store.write(lambda tx: tx.add(Boat(name="big", trips=2**62)))
    query = select(Boat.trips).where(Boat.name == "big")
    assert await store.read(lambda tx: tx.scalars(query).one()) == 2**62


async def test_a_closed_store_finishes_what_was_asked_and_refuses_the_rest(
    location: str, service: str
) -> None:
    store = await open_store(location, service)
    await store.write(boats.build)
    writes = [asyncio.create_task(store.write(boats.sail)) for _ in range(10)]
    await asyncio.sleep(0)
    await store.close()
    assert sorted(await asyncio.gather(*writes)) == list(range(1, 11))
    with pytest.raises(Unavailable):
        await store.write(boats.sail)
    with pytest.raises(Unavailable):
        await boats.trips(store)
    await store.close()


async def test_errors_show_no_parameters(store: Store) -> None:
    with pytest.raises(IntegrityError) as caught:
        await store.write(lambda tx: tx.add(boats.Sailor(id=1, boat="a secret")))
    assert "a secret" not in str(caught.value).split("[SQL", 1)[1]


async def test_another_url_is_refused() -> None:
    with pytest.raises(Invalid, match="mysql://"):
        await open_store("mysql://somewhere", "test")


async def test_a_part_that_a_flush_breaks_is_for_its_function_to_judge(store: Store) -> None:
    """Only a transaction that is lost is raised on; a broken constraint loses none."""

    def add(tx: Session) -> str:
        try:
            with savepoint(tx):
                tx.add(boats.Boat(name="ark"))
        except Exception as error:
            if failures.is_of_database(error):
                raise
            boats.sail(tx)
            return type(error).__name__
        return "added"

    assert await store.write(add) == "IntegrityError"
    assert await boats.trips(store) == 1
