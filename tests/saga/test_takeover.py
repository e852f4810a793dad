"""Several processes on one PostgreSQL: who dies is succeeded, who sleeps is fenced."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta

import pytest
from sqlalchemy.orm import Session

from mooring.clock import SimulatedClock
from mooring.errors import Conflict, Unavailable
from mooring.saga import ownership
from mooring.saga.laws import LawProbe
from tests.saga.shop import SEND, Desk, Ledger

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture
async def desk(postgres_url: str) -> AsyncGenerator[Desk]:
    made = Desk(postgres_url, Ledger(), LawProbe())
    await made.open()
    await made.add("o1")
    yield made
    await made.close()


async def test_a_living_owner_keeps_its_sagas(desk: Desk) -> None:
    first = asyncio.create_task(desk.engine.run())
    saga_id = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    await desk.let_leases_end()
    await desk.engine.schedule.share()
    second = await desk.new_engine()
    assert await desk.owner(saga_id) == desk.engine.owner
    await second.stop()
    await desk.engine.stop()
    await first


async def test_a_dead_owner_is_succeeded_without_a_restart(desk: Desk) -> None:
    second = await desk.new_engine()
    running = asyncio.create_task(second.run())
    saga_id = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    await desk.engine.stop()
    desk.ledger.parcels["courier"] = "here"
    await desk.let_leases_end()
    await desk.store.write(lambda tx: second.signal(tx, "courier:o1"))
    await second.ended(saga_id)
    assert await desk.statuses() == {"o1": "packed"}
    assert await desk.owner(saga_id) == second.owner
    await second.stop()
    await running


async def test_what_rests_goes_on_though_the_database_was_away_in_the_middle_of_a_takeover(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = await desk.new_engine()
    saga_id = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    await desk.engine.stop()
    await desk.let_leases_end()
    with monkeypatch.context() as patch:
        patch.setattr(ownership, "resting", _be_away)
        with pytest.raises(Unavailable):
            await second.schedule.share()
    assert await desk.owner(saga_id) == second.owner
    desk.ledger.parcels["courier"] = "here"
    await second.schedule.share()
    await second.settle()
    assert await desk.statuses() == {"o1": "packed"}
    await second.stop()


def _be_away(tx: Session, owner: str) -> list[tuple[str, datetime, datetime]]:
    del tx, owner
    raise Unavailable("The database did not answer.")


async def test_a_signal_from_another_process_wakes_the_owner(desk: Desk) -> None:
    other = await desk.new_engine()
    running = asyncio.create_task(desk.engine.run())
    saga_id = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    desk.ledger.parcels["courier"] = "here"
    await desk.store.write(lambda tx: other.signal(tx, "courier:o1"))
    await other.ended(saga_id)
    assert await desk.statuses() == {"o1": "packed"}
    await desk.engine.stop()
    await other.stop()
    await running


async def test_a_sleeper_that_wakes_late_undoes_nothing(desk: Desk) -> None:
    saga_id = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    await desk.let_leases_end()
    second = await desk.new_engine()
    desk.ledger.parcels["courier"] = "here"
    await second.settle()
    await second.ended(saga_id)
    desk.engine.schedule.wake(saga_id)
    await desk.engine.schedule.quiet()
    assert await desk.statuses() == {"o1": "packed"}
    assert "label:o1" in desk.ledger.parcels
    await second.stop()


async def test_an_abort_by_another_process_stops_what_the_owner_waits_for(desk: Desk) -> None:
    other = await desk.new_engine()
    running = asyncio.create_task(desk.engine.run())
    desk.ledger.hangs = asyncio.Event()
    saga_id = await desk.pack("o1", parcels=("a",))
    await desk.ledger.hangs.wait()
    await desk.store.write(lambda tx: other.abort(tx, saga_id))
    with pytest.raises(Conflict, match="was aborted"):
        await other.ended(saga_id, 20.0)
    assert await desk.statuses() == {"o1": "new"}
    await desk.engine.stop()
    await other.stop()
    await running


async def test_an_abort_by_another_process_ends_the_wait_for_locks(desk: Desk) -> None:
    other = await desk.new_engine()
    running = asyncio.create_task(desk.engine.run())
    await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    saga_id = await desk.start(SEND, "o1")
    await desk.engine.schedule.quiet()
    await desk.store.write(lambda tx: other.abort(tx, saga_id))
    with pytest.raises(Conflict, match="was aborted"):
        await other.ended(saga_id, 20.0)
    await desk.engine.stop()
    await other.stop()
    await running


async def test_who_is_to_give_up_its_wait_does_at_once_whatever_the_asker_s_clock_says(
    desk: Desk,
) -> None:
    other = await desk.new_engine()
    other.clock = SimulatedClock(desk.clock.now() + timedelta(minutes=20))
    await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    saga_id = await desk.start(SEND, "o1")
    await desk.engine.schedule.quiet()
    await desk.store.write(lambda tx: other.abort(tx, saga_id))
    await desk.engine.schedule.share(renew=False)
    await desk.engine.schedule.quiet()
    with pytest.raises(Conflict, match="was aborted"):
        await desk.engine.ended(saga_id, 0.0)
    await other.stop()
