"""What the engine promises, shown on a small shop."""

from __future__ import annotations

import pytest
from sqlalchemy.orm import Session

from mooring.errors import Conflict, Unavailable
from mooring.saga.held import HeldError
from tests.saga.shop import CANCEL, PACK, SEND, Desk, Order

pytestmark = pytest.mark.anyio


async def test_a_saga_runs_to_its_end(desk: Desk) -> None:
    saga_id = await desk.pack("o1")
    await desk.engine.ended(saga_id)
    assert await desk.statuses() == {"o1": "packed"}
    assert desk.ledger.parcels.keys() == {"label:o1", "o1/p1", "o1/p2"}


async def test_a_definite_error_unwinds_everything(desk: Desk) -> None:
    desk.probe.arm("shop.pack_order/mark_packed/forward/before", lambda: Conflict("no tape"))
    saga_id = await desk.pack("o1")
    with pytest.raises(Conflict, match="no tape"):
        await desk.engine.ended(saga_id)
    assert await desk.statuses() == {"o1": "new"}
    assert desk.ledger.parcels == {}


async def test_what_is_unavailable_is_tried_again(desk: Desk) -> None:
    desk.ledger.fail_next = [Unavailable("busy"), Unavailable("busy")]
    saga_id = await desk.pack("o1")
    await desk.engine.settle()
    await desk.engine.ended(saga_id)
    assert await desk.statuses() == {"o1": "packed"}


async def test_what_stays_unavailable_is_given_up_at_the_deadline(desk: Desk) -> None:
    desk.ledger.fail_next = [Unavailable("busy") for _ in range(30)]
    saga_id = await desk.pack("o1")
    await desk.engine.settle()
    with pytest.raises(Unavailable):
        await desk.engine.ended(saga_id)
    assert await desk.statuses() == {"o1": "new"}
    assert desk.ledger.parcels == {}


async def test_the_answer_waits_for_its_step_and_carries_its_error(desk: Desk) -> None:
    desk.ledger.fail_next = [Conflict("no ink")]
    saga_id = await desk.pack("o1")
    with pytest.raises(Conflict, match="no ink"):
        await desk.engine.answered(saga_id)
    assert await desk.statuses() == {"o1": "new"}


async def test_a_held_lock_refuses_and_names_the_holder(desk: Desk) -> None:
    saga_id = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    with pytest.raises(HeldError, match=saga_id):
        await desk.store.write(lambda tx: _start_pack(desk, tx))
    assert await desk.statuses() == {"o1": "packing"}


def _start_pack(desk: Desk, tx: Session) -> str:
    return desk.engine.start(tx, PACK, Order("o1"))


async def test_a_parked_saga_goes_on_at_its_signal(desk: Desk) -> None:
    saga_id = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    desk.ledger.parcels["courier"] = "here"
    await desk.store.write(lambda tx: desk.engine.signal(tx, "courier:o1"))
    await desk.engine.ended(saga_id)
    assert await desk.statuses() == {"o1": "packed"}


class Arriving(dict[str, str]):
    """Parcels among which the courier is seen at the second look."""

    looks = 0

    def __contains__(self, key: object) -> bool:
        self.looks += key == "courier"
        return super().__contains__(key) or (key == "courier" and self.looks > 1)


async def test_a_signal_that_comes_too_early_is_kept(desk: Desk) -> None:
    desk.ledger.parcels = Arriving()
    await desk.store.write(lambda tx: desk.engine.signal(tx, "courier:o1"))
    saga_id = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    assert ("shop.pack_order", "ended", "done") in await desk.sagas(), saga_id


async def test_a_lost_signal_costs_time_and_nothing_else(desk: Desk) -> None:
    saga_id = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    desk.ledger.parcels["courier"] = "here"
    await desk.engine.settle()
    await desk.engine.ended(saga_id)
    assert await desk.statuses() == {"o1": "packed"}


async def test_waiting_without_end_fails_at_its_timeout(desk: Desk) -> None:
    saga_id = await desk.pack("o1", wait=True)
    await desk.engine.settle()
    with pytest.raises(Unavailable, match="too long"):
        await desk.engine.ended(saga_id)
    assert await desk.statuses() == {"o1": "new"}
    assert desk.ledger.parcels == {}


async def test_sagas_that_wait_for_a_lock_run_in_order(desk: Desk) -> None:
    first = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    second = await desk.start(SEND, "o1")
    desk.ledger.parcels["courier"] = "here"
    await desk.store.write(lambda tx: desk.engine.signal(tx, "courier:o1"))
    await desk.engine.ended(first)
    await desk.engine.ended(second)
    assert await desk.statuses() == {"o1": "sent"}


async def test_preempting_aborts_the_holder_and_then_runs(desk: Desk) -> None:
    first = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    second = await desk.start(CANCEL, "o1")
    await desk.engine.ended(second)
    with pytest.raises(Conflict, match="Another operation took its place"):
        await desk.engine.ended(first)
    assert await desk.statuses() == {"o1": "cancelled"}
    assert desk.ledger.parcels == {}


async def test_who_waits_too_long_for_a_lock_gives_up(desk: Desk) -> None:
    await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    desk.ledger.fail_next = [Unavailable("not now")]
    second = await desk.engine.submit(
        lambda tx: desk.engine.start(tx, CANCEL, Order("o1"), wait_s=0.1)
    )
    await desk.engine.settle()
    with pytest.raises(Unavailable, match="too long"):
        await desk.engine.ended(second)
    assert await desk.statuses() == {"o1": "new"}


async def test_preempting_absorbs_a_holder_whose_undo_cannot_proceed(desk: Desk) -> None:
    first = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    desk.ledger.fail_next = [Unavailable("gone") for _ in range(2)]
    second = await desk.start(CANCEL, "o1")
    await desk.engine.settle()
    await desk.engine.ended(second)
    assert await desk.statuses() == {"o1": "cancelled"}
    assert ("shop.pack_order", "ended", "absorbed") in await desk.sagas()
    assert first


async def test_behind_the_pivot_there_is_only_forward(desk: Desk) -> None:
    await desk.engine.ended(await desk.pack("o1"))
    desk.ledger.fail_next = [Unavailable("busy") for _ in range(40)]
    saga_id = await desk.start(SEND, "o1")
    await desk.engine.schedule.quiet()
    with pytest.raises(Conflict, match="past the point of return"):
        await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id))
    await desk.engine.settle()
    await desk.engine.ended(saga_id)
    assert await desk.statuses() == {"o1": "sent"}


async def test_a_definite_error_behind_the_pivot_comes_to_the_declared_end(desk: Desk) -> None:
    await desk.engine.ended(await desk.pack("o1"))
    desk.ledger.fail_next = [Conflict("van broke down")]
    saga_id = await desk.start(SEND, "o1")
    with pytest.raises(Conflict, match="van broke down"):
        await desk.engine.ended(saga_id)
    assert await desk.statuses() == {"o1": "lost"}


async def test_an_undo_is_tried_for_as_long_as_it_takes_and_shown_as_stuck(desk: Desk) -> None:
    saga_id = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    desk.ledger.fail_next = [Unavailable("gone") for _ in range(400)]
    await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id))
    await desk.engine.settle(horizon_s=4000)
    assert await desk.statuses() == {"o1": "packing"}
    desk.ledger.fail_next = []
    await desk.engine.settle()
    assert await desk.statuses() == {"o1": "new"}


async def test_an_engine_that_lost_a_saga_changes_nothing_any_more(desk: Desk) -> None:
    saga_id = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    await desk.let_leases_end()
    old, desk.engine = desk.engine, await desk.new_engine()
    desk.ledger.parcels["courier"] = "here"
    old.schedule.wake(saga_id)
    await old.schedule.quiet()
    assert await desk.statuses() == {"o1": "packing"}
    await desk.engine.settle()
    assert await desk.statuses() == {"o1": "packed"}
    await old.stop()
