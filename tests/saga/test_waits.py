"""Operators are told why an operation waits, and of an abort only where it would be taken."""

from __future__ import annotations

import pytest

from mooring.bulkhead import Hindrance
from mooring.errors import Conflict, Unavailable
from mooring.saga import operations
from mooring.saga.operations import Summary
from mooring.saga.slots import write_hindrance
from mooring.saga.waiting import no_way_back
from tests.saga.shop import SEND, Desk
from tests.saga.test_ending import DELIVER, GIVE_AWAY

pytestmark = pytest.mark.anyio


async def _shown(desk: Desk) -> Summary:
    [shown] = await desk.store.read(lambda tx: operations.list_operations(tx, desk.engine))
    return shown


async def test_what_failed_last_is_what_it_waits_for(desk: Desk) -> None:
    desk.ledger.fail_next = [Unavailable("The printer is out of paper.")]
    await desk.pack("o1")
    await desk.engine.schedule.quiet()
    shown = await _shown(desk)
    assert shown.waits == "The printer is out of paper. It is tried again."
    assert shown.may_abort
    await desk.store.write(lambda tx: desk.engine.abort(tx, shown.id, insists=True))
    await desk.engine.settle()
    assert await desk.statuses() == {"o1": "new"}


async def test_what_failed_in_an_earlier_step_is_not(desk: Desk) -> None:
    desk.ledger.fail_next = [Unavailable("The printer is out of paper.")]
    await desk.pack("o1", wait=True)
    await desk.engine.settle(60.0)
    shown = await _shown(desk)
    assert (shown.step, shown.waits) == ("await_courier", "")


async def test_no_abort_is_offered_past_the_point_of_return(desk: Desk) -> None:
    await desk.engine.ended(await desk.pack("o1"))
    desk.ledger.fail_next = [Unavailable("busy")]
    saga_id = await desk.start(SEND, "o1")
    await desk.engine.schedule.quiet()
    assert not (await _shown(desk)).may_abort
    with pytest.raises(Conflict, match="force it down"):
        await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id, insists=True))


async def test_a_refused_abort_says_what_helps_before_the_first_attempt_has_ended(
    desk: Desk,
) -> None:
    saga_id = await desk.start(DELIVER, "o1")
    await desk.engine.schedule.quiet()
    assert not (await _shown(desk)).may_abort
    told = rf"mooring operations show {saga_id}\..* service set --down HOST nova-compute"
    with pytest.raises(Conflict, match=told):
        await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id, insists=True))


def test_a_refused_abort_names_the_host_where_the_bookmark_has_it() -> None:
    told = no_way_back("op1", write_hindrance(Hindrance("h2", None))).public
    assert "mooring operations show op1. " in told
    assert "openstack compute service set --down h2 nova-compute" in told


async def test_an_abort_is_offered_for_what_may_be_forgone_once_it_was_tried(desk: Desk) -> None:
    desk.ledger.fail_next = [Unavailable("gone") for _ in range(9)]
    saga_id = await desk.start(GIVE_AWAY, "o1")
    await desk.engine.schedule.quiet()
    assert (await _shown(desk)).may_abort
    await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id, insists=True))
    await desk.engine.settle(60.0)
