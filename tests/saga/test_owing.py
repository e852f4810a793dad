"""What the engine promises when one saga absorbs another: what that one owed to others is paid."""

from __future__ import annotations

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.errors import Conflict, Invalid, Unavailable
from mooring.saga import laws, operations
from mooring.saga.define import Run, Saga, Step, exclusive
from mooring.saga.laws import Crash
from mooring.saga.tables import LockRow, SagaRow
from tests.saga.shop import CANCEL, Desk, Order, Shop, set_status

pytestmark = pytest.mark.anyio


def load(tx: Session, notes: Order, run: Run[Shop]) -> None:
    del run
    set_status(tx, notes.order_id, "sending", among=("new",))


async def cross(notes: Order, run: Run[Shop]) -> None:
    del notes
    run.service.ledger.put("crossed", "yes")


async def call_off(notes: Order, run: Run[Shop]) -> None:
    assert run.generation(f"order:{notes.order_id}") == run.operation.generation
    run.service.ledger.put("called off", str(run.operation.generation))


def note_called_off(tx: Session, notes: Order, run: Run[Shop]) -> None:
    """What is owed may be a transaction, too."""
    assert run.error is not None
    del tx, notes


FERRY = Saga(
    "stall.ferry",
    Order,
    Step("load", load),
    Step("cross", cross),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
    pivot="cross",
    answered_after="cross",
    owes=[
        Step("call_off", call_off, may_be_forgone=True),
        Step("note_called_off", note_called_off),
    ],
)


BARGE = Saga(
    "stall.barge",
    Order,
    Step("load", load),
    Step("cross", cross),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
    pivot="cross",
    answered_after="cross",
    owes=[Step("call_off", call_off, may_be_forgone=True, until_taken=True)],
)


async def absorb(desk: Desk, *befalls: Exception, saga: Saga[Order] = FERRY) -> tuple[str, int]:
    """Let one that gets no answer be absorbed; return its id and its lock's generation."""
    desk.ledger.fail_next = [Unavailable("fog"), Unavailable("fog"), *befalls]
    saga_id = await desk.start(saga, "o1")
    await desk.engine.schedule.quiet()
    number = select(LockRow.generation).where(LockRow.saga_id == saga_id)
    generation = await desk.store.read(lambda tx: tx.execute(number).scalar_one())
    heir = await desk.start(CANCEL, "o1")
    await desk.engine.schedule.quiet()
    await desk.engine.ended(heir)
    return saga_id, generation


async def heading(desk: Desk, saga_id: str) -> tuple[str, str]:
    query = select(SagaRow.heading, SagaRow.state).where(SagaRow.id == saga_id)
    found = await desk.store.read(lambda tx: tx.execute(query).one())
    return found[0], found[1]


async def test_who_is_absorbed_pays_what_it_owes_with_the_generation_it_had(desk: Desk) -> None:
    _, generation = await absorb(desk)
    await desk.engine.settle()
    assert ("stall.ferry", "ended", "absorbed") in await desk.sagas()
    assert await desk.statuses() == {"o1": "cancelled"}
    assert desk.ledger.parcels == {"called off": str(generation)}


async def test_the_heir_waits_for_no_debt(desk: Desk) -> None:
    saga_id, _ = await absorb(desk, *[Unavailable("fog") for _ in range(20)])
    assert await desk.statuses() == {"o1": "cancelled"}, "the heir has ended"
    assert await heading(desk, saga_id) == ("owing", "parked")
    [shown] = await desk.store.read(lambda tx: operations.list_operations(tx, desk.engine))
    assert (shown.name, shown.step, shown.locks) == ("stall.ferry", "call_off", ())
    await desk.engine.settle()
    assert ("stall.ferry", "ended", "absorbed") in await desk.sagas()
    assert "called off" in desk.ledger.parcels


async def test_a_debt_outlives_its_process_with_its_generation(desk: Desk) -> None:
    saga_id, generation = await absorb(desk, Unavailable("fog"))
    assert await heading(desk, saga_id) == ("owing", "parked")
    await desk.engine.stop()
    await desk.let_leases_end()
    await desk.restart()
    await desk.engine.settle()
    assert desk.ledger.parcels == {"called off": str(generation)}
    assert await heading(desk, saga_id) == ("owing", "ended")


@pytest.mark.parametrize(
    "refusal", [Conflict("Somebody came later.", status=412), Invalid("I know of no ferry.")]
)
async def test_what_nobody_takes_is_owed_no_more(desk: Desk, refusal: Exception) -> None:
    await absorb(desk, refusal)
    await desk.engine.settle()
    assert ("stall.ferry", "ended", "absorbed") in await desk.sagas()
    assert desk.ledger.parcels == {}


async def test_what_is_owed_until_it_is_taken_is_offered_again(desk: Desk) -> None:
    await absorb(desk, *[Conflict("I am reading it.") for _ in range(20)], saga=BARGE)
    assert await desk.statuses() == {"o1": "cancelled"}, "the heir has ended"
    await desk.engine.settle()
    assert ("stall.barge", "ended", "absorbed") in await desk.sagas()
    assert "called off" in desk.ledger.parcels


async def test_who_came_later_is_owed_nothing_however_it_is_owed(desk: Desk) -> None:
    await absorb(desk, Conflict("Somebody came later.", status=412), saga=BARGE)
    await desk.engine.settle()
    assert ("stall.barge", "ended", "absorbed") in await desk.sagas()
    assert desk.ledger.parcels == {}


async def test_an_operator_may_forgo_what_nobody_takes(desk: Desk) -> None:
    refused = [Conflict("I am reading it.") for _ in range(40)]
    saga_id, _ = await absorb(desk, *refused, saga=BARGE)
    await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id, insists=True))
    await desk.engine.settle()
    assert ("stall.barge", "ended", "absorbed") in await desk.sagas()
    assert desk.ledger.parcels == {}


async def test_a_mistake_in_paying_is_no_payment(desk: Desk) -> None:
    await absorb(desk, RuntimeError("a bug"))
    await desk.engine.settle()
    assert "called off" in desk.ledger.parcels


@pytest.mark.parametrize("point", laws.debts_of(FERRY))
async def test_a_crash_while_paying_leaves_nothing_owed(desk: Desk, point: str) -> None:
    desk.probe.arm(point, Crash)
    desk.ledger.fail_next = [Unavailable("fog"), Unavailable("fog")]
    await desk.start(FERRY, "o1")
    await desk.engine.schedule.quiet()
    await desk.start(CANCEL, "o1")
    with pytest.raises(Crash):
        await desk.engine.settle()
    await desk.engine.stop()
    await desk.let_leases_end()
    await desk.restart()
    await desk.engine.settle()
    assert await desk.statuses() == {"o1": "cancelled"}
    assert ("stall.ferry", "ended", "absorbed") in await desk.sagas()
    assert "called off" in desk.ledger.parcels


async def test_an_operator_may_forgo_a_debt_and_nobody_aborts_it(desk: Desk) -> None:
    saga_id, _ = await absorb(desk, *[Unavailable("fog") for _ in range(40)])
    with pytest.raises(Conflict, match="past the point of return"):
        await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id))
    await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id, insists=True))
    await desk.engine.settle(0.0)
    assert ("stall.ferry", "ended", "absorbed") in await desk.sagas()
    assert desk.ledger.parcels == {}


async def test_who_asked_need_not_wait_for_debts(desk: Desk) -> None:
    saga_id, _ = await absorb(desk, *[Unavailable("fog") for _ in range(40)])
    with pytest.raises(Unavailable, match="fog"):
        await desk.engine.answered(saga_id)
