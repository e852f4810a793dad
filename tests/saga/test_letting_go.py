"""What the engine promises of locks that a saga lets go once its result is shown."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.errors import Unavailable
from mooring.saga.define import Run, Saga, Step, exclusive
from mooring.saga.held import HeldError
from mooring.saga.laws import Crash
from mooring.saga.tables import LockRow
from tests.saga.shop import Desk, Order, Shop, set_status

pytestmark = pytest.mark.anyio


async def heat(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.put(f"heat:{notes.order_id}", "on")


def show(tx: Session, notes: Order, run: Run[Shop]) -> None:
    run.generation(f"order:{notes.order_id}")
    set_status(tx, notes.order_id, "baked", among=("new",))


async def clean(notes: Order, run: Run[Shop]) -> None:
    if "soot" in run.service.ledger.parcels:
        raise Unavailable("There is soot.")
    run.service.ledger.put(f"clean:{notes.order_id}", str(run.operation.generation))


async def serve(notes: Order, run: Run[Shop]) -> None:
    run.service.ledger.put(f"table:{notes.order_id}", "laid")


BAKE = Saga(
    "stall.bake",
    Order,
    Step("heat", heat),
    Step("show", show),
    Step("clean", clean),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}"), exclusive("oven")],
    visible_after="show",
    lets_go=lambda notes: [f"order:{notes.order_id}"],
    pivot="show",
)
SERVE = Saga(
    "stall.serve",
    Order,
    Step("serve", serve),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
    mode="wait",
)


EARLY = {"visible_after": "heat", "pivot": "serve"}


async def bake_in_soot(desk: Desk) -> str:
    """Begin to bake, and come as far as what was baked is shown; return the operation."""
    desk.ledger.put("soot", "much")
    saga_id = await desk.start(BAKE, "o1")
    await desk.engine.schedule.quiet()
    assert await desk.statuses() == {"o1": "baked"}
    return saga_id


async def held(desk: Desk, saga_id: str) -> dict[str, int]:
    """Return the generation of each lock that an operation has."""
    mine = select(LockRow.key, LockRow.generation).where(LockRow.saga_id == saga_id, LockRow.held)
    return await desk.store.read(lambda tx: {row[0]: row[1] for row in tx.execute(mine)})


async def take_over(desk: Desk) -> None:
    """Let another process go on with what this one began."""
    await desk.engine.stop()
    await desk.let_leases_end()
    await desk.restart()


async def test_what_was_shown_is_free_before_the_rest_is_done(desk: Desk) -> None:
    saga_id = await bake_in_soot(desk)
    assert list(await held(desk, saga_id)) == ["oven"]
    await desk.engine.ended(await desk.start(SERVE, "o1"))
    desk.ledger.remove("soot")
    await desk.engine.settle()
    assert "clean:o1" in desk.ledger.parcels
    assert await held(desk, saga_id) == {}


async def test_what_is_not_let_go_stays(desk: Desk) -> None:
    saga_id = await bake_in_soot(desk)
    with pytest.raises(HeldError, match=saga_id):
        await desk.store.write(lambda tx: desk.engine.start(tx, BAKE, Order("o2")))


async def test_who_waits_for_it_is_woken(desk: Desk) -> None:
    desk.ledger.put("soot", "much")

    def begin(tx: Session) -> str:
        desk.engine.start(tx, BAKE, Order("o1"))
        return desk.engine.start(tx, SERVE, Order("o1"))

    await desk.engine.ended(await desk.engine.submit(begin))
    assert desk.ledger.parcels["table:o1"] == "laid"
    assert "clean:o1" not in desk.ledger.parcels


async def test_it_is_let_go_with_the_bookmark_or_not_at_all(desk: Desk) -> None:
    desk.probe.arm("stall.bake/show/forward/after", Crash)
    saga_id = await desk.start(BAKE, "o1")
    with pytest.raises(Crash):
        await desk.engine.settle()
    assert len(await held(desk, saga_id)) == 2
    assert await desk.statuses() == {"o1": "new"}
    await take_over(desk)
    await desk.engine.settle()
    assert await desk.sagas() == [("stall.bake", "ended", "done")]


async def test_whoever_takes_over_asks_with_the_same_generation(desk: Desk) -> None:
    saga_id = await bake_in_soot(desk)
    kept = await held(desk, saga_id)
    await take_over(desk)
    desk.ledger.remove("soot")
    await desk.engine.settle()
    assert desk.ledger.parcels["clean:o1"] == str(kept["oven"])


@pytest.mark.parametrize("way", [{}, {"visible_after": "heat"}, {"pivot": "heat"}, EARLY])
def test_nothing_is_let_go_while_there_is_a_way_back(way: dict[str, Any]) -> None:
    steps = Step("heat", heat), Step("serve", serve)
    with pytest.raises(ValueError, match="take back"):
        Saga("stall.hide", Order, *steps, lets_go=lambda notes: [notes.order_id], **way)
