"""What the engine promises of a saga that may turn forward once more when it was unwound."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.errors import Conflict, MooringError, Unavailable
from mooring.saga import operations
from mooring.saga.define import Again, Each, Run, Saga, Step, exclusive
from tests.saga.shop import Desk, Order, Shop

pytestmark = pytest.mark.anyio


async def sign(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.put("signed", run.operation.step)


async def strike(notes: Order, run: Run[Shop]) -> None:
    take_back("signed", run)


async def hire(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.put(f"hired:{notes.label}", run.operation.step)


async def dismiss(notes: Order, run: Run[Shop]) -> None:
    take_back(f"hired:{notes.label}", run)


def take_back(key: str, run: Run[Shop]) -> None:
    """Remove what this very operation has put there, as a peer with a fence does."""
    if run.service.ledger.parcels.get(key) == run.operation.step:
        run.service.ledger.remove(key)


async def ask(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.put(f"asked:{notes.label}", run.operation.step)


def next_carrier(notes: Order, run: Run[Shop]) -> Order | None:
    assert run.error is not None
    return replace(notes, label=f"{notes.label}i") if len(notes.label) < 3 else None


def tell(tx: Session, notes: Order, run: Run[Shop]) -> None:
    assert run.error is not None
    run.service.ledger.put(f"told of {notes.label}", run.error.public)


HAUL = Saga(
    "stall.haul",
    Order,
    Step("sign", sign, undo=strike),
    Step("hire", hire, undo=dismiss),
    Step("ask", ask),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
    answered_after="sign",
    again=Again("hire", next_carrier, told=tell),
)


async def haul(desk: Desk, *befalls: Exception) -> str:
    """Begin to haul, with what befalls each carrier that is asked."""
    left = list(befalls)

    def fail() -> Exception:
        error = left.pop(0)
        if left:
            desk.probe.arm(POINT, fail)
        return error

    desk.probe.arm(POINT, fail)
    return await desk.engine.submit(lambda tx: desk.engine.start(tx, HAUL, Order("o1", label="i")))


POINT = "stall.haul/ask/forward/before"


async def test_what_failed_is_tried_once_more_with_other_notes(desk: Desk) -> None:
    saga_id = await haul(desk, Conflict("lame horse"))
    await desk.engine.settle()
    await desk.engine.ended(saga_id)
    assert desk.ledger.parcels == {
        "signed": "sign",
        "told of i": "lame horse",
        "hired:ii": "2.hire",
        "asked:ii": "2.ask",
    }


async def test_it_ends_with_the_last_error_when_the_notes_say_so(desk: Desk) -> None:
    saga_id = await haul(desk, *(Conflict(f"no {number}") for number in (1, 2, 3)))
    await desk.engine.settle()
    with pytest.raises(Conflict, match="no 3"):
        await desk.engine.ended(saga_id)
    assert desk.ledger.parcels == {"told of i": "no 1", "told of ii": "no 2"}
    seen = await desk.store.read(lambda tx: operations.show_operation(tx, desk.engine, saga_id))
    went = [(one.step, one.heading, one.result) for one in seen.timeline]
    round_trip = [
        ("hire", "forward", "done"),
        ("ask", "forward", "failed"),
        ("hire", "back", "done"),
    ]
    assert went == [("sign", "forward", "done"), *round_trip * 3, ("sign", "back", "done")]


async def test_an_abort_is_final(desk: Desk) -> None:
    saga_id = await haul(desk, Unavailable("asleep"))
    await desk.engine.schedule.quiet()
    await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id))
    await desk.engine.settle()
    with pytest.raises(MooringError):
        await desk.engine.ended(saga_id)
    assert desk.ledger.parcels == {}


async def test_nothing_is_begun_again_before_all_behind_it_is_taken_back(desk: Desk) -> None:
    saga_id = await haul(desk, Conflict("lame horse"))
    desk.probe.arm("stall.haul/hire/back/before", lambda: Unavailable("not now"))
    await desk.engine.schedule.quiet()
    assert set(desk.ledger.parcels) == {"signed", "hired:i"}
    await desk.engine.settle()
    await desk.engine.ended(saga_id)
    assert set(desk.ledger.parcels) == {"signed", "told of i", "hired:ii", "asked:ii"}


async def test_an_error_in_what_is_told_is_a_failed_undo(desk: Desk) -> None:
    refused: list[str] = []

    def refuse(tx: Session, notes: Order, run: Run[Shop]) -> None:
        if not refused:
            refused.append(notes.label)
            raise Unavailable("no ink")
        tell(tx, notes, run)

    saga = Saga(
        "stall.haul_told",
        Order,
        Step("hire", hire, undo=dismiss),
        Step("load", hire, undo=dismiss),
        Step("ask", ask),
        again=Again("load", next_carrier, told=refuse),
    )
    desk.probe.arm("stall.haul_told/ask/forward/before", lambda: Conflict("lame horse"))
    order = Order("o1", label="i")
    await desk.engine.submit(lambda tx: desk.engine.start(tx, saga, order))
    await desk.engine.settle()
    assert refused == ["i"]
    assert await desk.sagas() == [("stall.haul_told", "ended", "done")]
    assert desk.ledger.parcels["told of i"] == "lame horse"


@pytest.mark.parametrize("step", ["sign", "pack", "nothing", "ask"])
def test_it_begins_again_at_a_single_step_before_the_pivot(step: str) -> None:
    parts = (
        Step("sign", sign),
        Each("parcels", lambda notes: notes.parcels, Step("pack", ask)),
        Step("hire", hire),
        Step("ask", ask),
    )
    with pytest.raises(ValueError, match=f"cannot begin again at {step}"):
        Saga("stall.x", Order, *parts, pivot="ask", again=Again(step, next_carrier))
