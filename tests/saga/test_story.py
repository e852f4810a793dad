"""What the engine tells of a saga: each chapter once, in the transaction in which it comes true."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.errors import Conflict, MooringError, Unavailable
from mooring.saga.define import Each, Run, Saga, Step, Story, exclusive
from mooring.saga.laws import Crash
from tests.saga.shop import CANCEL, Desk, Order, OrderRow, Shop

pytestmark = pytest.mark.anyio


def say(word: str) -> Callable[..., None]:
    """Return a chapter that writes a word down: twice is refused by the key."""

    def chapter(tx: Session, notes: Order, run: Run[Shop]) -> None:
        so_far = "".join(("b" if run.begun else "", "a" if run.answered else ""))
        tx.add(OrderRow(id=f"{word} {notes.order_id}", status=f"({so_far})"))
        tx.flush()

    return chapter


async def order_paint(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.put(f"paint:{notes.order_id}", "ordered")


async def return_paint(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.remove(f"paint:{notes.order_id}")


async def coat(notes: Order, item: str, run: Run[Shop]) -> None:
    del notes
    run.service.ledger.put(f"coat:{item}", "dry")


def record(tx: Session, notes: Order, run: Run[Shop]) -> None:
    del tx, notes, run


STORY = Story(
    begun=say("begun"),
    answered=say("answered"),
    ended=say("ended"),
    failed=say("failed"),
    absorbed=say("absorbed"),
)
PAINT = Saga(
    "stall.paint",
    Order,
    Step("order_paint", order_paint, undo=return_paint),
    Each("coats", lambda notes: notes.parcels, Step("coat", coat)),
    Step("record", record),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
    answered_after="coat",
    story=STORY,
)


VARNISH = Saga(
    "stall.varnish",
    Order,
    Step("order_varnish", order_paint),
    Step("begin", record),
    Step("apply", order_paint),
    Step("record", record),
    story=Story(passed={"begin": say("begun"), "apply": say("dry")}, ended=say("ended")),
)


async def told(desk: Desk) -> dict[str, str]:
    query = select(OrderRow.id, OrderRow.status).where(OrderRow.id.like("% o1"))
    rows = await desk.store.read(lambda tx: [(row[0], row[1]) for row in tx.execute(query)])
    return {name.partition(" ")[0]: so_far for name, so_far in rows}


async def paint(desk: Desk) -> None:
    await desk.start(PAINT, "o1")
    await desk.engine.settle()


async def test_a_saga_that_is_done_is_told_in_three_chapters(desk: Desk) -> None:
    await paint(desk)
    assert await told(desk) == {"begun": "()", "answered": "(b)", "ended": "(ba)"}


async def test_a_chapter_may_belong_to_a_step(desk: Desk) -> None:
    await desk.start(VARNISH, "o1")
    await desk.engine.settle()
    assert await told(desk) == {"begun": "(b)", "dry": "(b)", "ended": "(b)"}


async def test_a_saga_that_fails_is_told_as_far_as_it_came(desk: Desk) -> None:
    desk.probe.arm("stall.paint/coat/forward/after", lambda: Conflict("It runs."), nth=2)
    await paint(desk)
    assert await told(desk) == {"begun": "()", "failed": "(b)"}


async def test_a_saga_whose_first_step_fails_has_not_begun(desk: Desk) -> None:
    desk.probe.arm("stall.paint/order_paint/forward/after", lambda: Conflict("Sold out."))
    await paint(desk)
    assert await told(desk) == {"failed": "()"}


async def test_a_saga_that_is_absorbed_is_told_so(desk: Desk) -> None:
    desk.probe.arm("stall.paint/record/forward/before", lambda: Conflict("It runs."))
    await desk.start(PAINT, "o1")
    desk.ledger.fail_next = []

    def refuse() -> Exception:
        desk.probe.arm("stall.paint/order_paint/back/before", refuse)
        return Unavailable("gone")

    desk.probe.arm("stall.paint/order_paint/back/before", refuse)
    await desk.engine.schedule.quiet()
    await desk.start(CANCEL, "o1")
    await desk.engine.settle()
    assert ("stall.paint", "ended", "absorbed") in await desk.sagas()
    assert await told(desk) == {"begun": "()", "answered": "(b)", "absorbed": "(ba)"}


POINTS = [
    f"stall.paint/{step}/forward/{when}"
    for step in ("order_paint", "coat")
    for when in ("before", "after", "saved")
] + [f"stall.paint/record/forward/{when}" for when in ("before", "after")]


@pytest.mark.parametrize("point", POINTS)
async def test_a_crash_leaves_nothing_untold_and_nothing_told_twice(desk: Desk, point: str) -> None:
    desk.probe.arm(point, Crash)
    with pytest.raises(Crash):
        await paint(desk)
    await desk.engine.stop()
    await desk.let_leases_end()
    await desk.restart()
    await desk.engine.settle()
    assert await told(desk) == {"begun": "()", "answered": "(b)", "ended": "(ba)"}


async def test_a_chapter_that_cannot_be_told_fails_its_step(desk: Desk) -> None:
    await desk.store.write(lambda tx: tx.add(OrderRow(id="ended o1", status="(taken)")))
    await paint(desk)
    assert ("stall.paint", "ended", "undone") in await desk.sagas()
    assert (await told(desk))["failed"] == "(ba)"


async def test_what_is_refused_at_the_start_is_not_told(desk: Desk) -> None:
    def refuse(tx: Session, notes: Order, run: Run[Shop]) -> None:
        raise Conflict("We are closed.")

    saga: Saga[Any] = Saga("stall.refuse", Order, Step("refuse", refuse), story=STORY)
    with pytest.raises(MooringError, match="closed"):
        await desk.start(saga, "o1")
    assert await told(desk) == {}
