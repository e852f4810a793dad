"""The time of day steps by hours, both ways: nobody who rests sleeps through them."""

from __future__ import annotations

import pytest

from mooring.errors import Unavailable
from tests.saga.shop import SEND, Desk, Order

pytestmark = pytest.mark.anyio

STEPS = pytest.mark.parametrize("hours", [-5, 5], ids=["back", "forward"])
REST_S = 30
"""What `await_courier` rests for at a time."""


async def rest(desk: Desk, hours: int) -> str:
    """Let a saga rest for the courier, then step the clock."""
    saga_id = await desk.pack("o1", wait=True)
    await desk.engine.schedule.quiet()
    desk.ledger.parcels["courier"] = "here"
    desk.clock.step(hours * 3600)
    return saga_id


async def has_gone_on(desk: Desk, seconds: float) -> bool:
    """Let time pass and tell whether the saga went on."""
    desk.clock.advance(seconds)
    desk.engine.schedule.ring()
    await desk.engine.schedule.quiet()
    return await desk.statuses() == {"o1": "packed"}


@STEPS
async def test_a_rest_is_as_long_as_it_was_meant(desk: Desk, hours: int) -> None:
    await rest(desk, hours)
    assert not await has_gone_on(desk, REST_S - 1)
    assert await has_gone_on(desk, 1)


@STEPS
async def test_after_a_restart_a_rest_is_no_longer_than_it_was_meant(
    desk: Desk, hours: int
) -> None:
    await rest(desk, hours)
    await desk.let_leases_end()
    await desk.restart()
    assert await has_gone_on(desk, REST_S)


@STEPS
async def test_a_signal_wakes_whatever_the_clock_says(desk: Desk, hours: int) -> None:
    saga_id = await rest(desk, hours)
    await desk.store.write(lambda tx: desk.engine.signal(tx, "courier:o1"))
    await desk.engine.schedule.quiet()
    await desk.engine.ended(saga_id)


@STEPS
async def test_whoever_waits_for_a_lock_waits_as_long_as_meant(desk: Desk, hours: int) -> None:
    await desk.pack("o1", wait=True)
    engine = desk.engine
    saga_id = await engine.submit(lambda tx: engine.start(tx, SEND, Order("o1"), wait_s=20))
    desk.clock.step(hours * 3600)
    desk.clock.advance(20)
    engine.schedule.ring()
    await engine.schedule.quiet()
    with pytest.raises(Unavailable, match="waited too long"):
        await engine.ended(saga_id, timeout_s=0)
