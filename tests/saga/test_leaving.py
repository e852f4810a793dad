"""What the engine promises of an undo that is refused for good."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from sqlalchemy import select

from mooring.clients.refusals import refusal
from mooring.errors import Conflict, MooringError, Unavailable
from mooring.saga import operations
from mooring.saga.define import Run, Saga, Step
from mooring.saga.tables import SagaRow
from tests.saga.shop import WRAP, Desk, Order, Shop

pytestmark = pytest.mark.anyio


def put(word: str) -> Callable[..., Awaitable[None]]:
    async def do(notes: Order, run: Run[Shop]) -> None:
        run.service.ledger.put(word, notes.order_id)

    return do


GLAZE = Saga(
    "stall.glaze",
    Order,
    Step("fire", put("fired")),
    pivot="fire",
    failed_end=(Step("mend", put("mended")), Step("sell", put("sold"))),
    undo_ends=(Step("sweep", put("swept")),),
)


async def wrap_in_vain(desk: Desk, *undoing: Exception) -> str:
    """Wrap an order until it fails, with what befalls the ledger while it is unwound."""
    await desk.engine.ended(await desk.pack("o1"))

    def fail() -> Exception:
        desk.ledger.fail_next = list(undoing)
        return Conflict("no courier")

    desk.probe.arm("shop.wrap_order/await_courier/forward/before", fail)
    saga_id = await desk.start(WRAP, "o1")
    await desk.engine.schedule.quiet()
    return saga_id


def given(desk: Desk) -> set[str]:
    return {key.partition(":")[0] for key in desk.ledger.parcels if ":" in key} - {"label"}


async def test_a_refused_undo_stops_the_unwinding_and_its_end_is_run(desk: Desk) -> None:
    saga_id = await wrap_in_vain(desk, Conflict("the knot is too tight"))
    with pytest.raises(Conflict, match="no courier"):
        await desk.engine.ended(saga_id)
    assert ("shop.wrap_order", "ended", "failed") in await desk.sagas()
    assert await desk.statuses() == {"o1": "spoilt"}
    assert given(desk) == {"paper", "ribbon", "sold off"}
    assert desk.ledger.parcels["sold off:o1"] == "the knot is too tight"


async def test_an_undo_that_is_only_unavailable_is_tried_again(desk: Desk) -> None:
    await wrap_in_vain(desk, Unavailable("busy"), Unavailable("busy"))
    await desk.engine.settle()
    assert ("shop.wrap_order", "ended", "undone") in await desk.sagas()
    assert given(desk) == set()


async def test_an_undo_is_given_up_after_as_many_tries_as_its_step_says(desk: Desk) -> None:
    await wrap_in_vain(desk, *[Unavailable("busy") for _ in range(3)])
    await desk.engine.settle()
    assert ("shop.wrap_order", "ended", "failed") in await desk.sagas()
    assert given(desk) == {"paper", "ribbon", "sold off"}


@pytest.mark.parametrize(
    "fenced",
    [
        Conflict("Somebody came later.", status=412),
        refusal("volume", "DELETE /attachments/1", 412, {}, b""),
    ],
    ids=["host", "service"],
)
async def test_an_undo_that_somebody_fenced_off_is_no_refusal(
    desk: Desk, fenced: MooringError
) -> None:
    await wrap_in_vain(desk, fenced)
    await desk.engine.settle()
    assert ("shop.wrap_order", "ended", "undone") in await desk.sagas()


async def test_the_end_of_an_undo_is_reached_however_long_it_takes(desk: Desk) -> None:
    refusals = [Conflict("no"), *[Unavailable("gone") for _ in range(30)], Conflict("not yet")]
    await wrap_in_vain(desk, *refusals)
    await desk.engine.settle()
    assert await desk.statuses() == {"o1": "spoilt"}


async def test_an_operator_sees_it_leave_and_cannot_abort_it(desk: Desk) -> None:
    saga_id = await wrap_in_vain(desk, Conflict("too tight"), Unavailable("gone"))
    [shown] = await desk.store.read(lambda tx: operations.list_operations(tx, desk.engine))
    assert (shown.step, shown.error, shown.undo_error) == ("sell_off", "no courier", "too tight")
    with pytest.raises(Conflict, match="past the point of return"):
        await desk.store.write(lambda tx: desk.engine.abort(tx, saga_id))
    await desk.store.write(lambda tx: desk.engine.retry(tx, saga_id))
    await desk.engine.settle()
    seen = await desk.store.read(lambda tx: operations.show_operation(tx, desk.engine, saga_id))
    led = [(one.step, one.heading, one.result) for one in seen.timeline if one.heading != "forward"]
    assert led == [
        ("tie", "back", "failed"),
        ("sell_off", "leaving", "failed"),
        ("sell_off", "leaving", "done"),
        ("record_spoilt", "leaving", "done"),
    ]
    heading = select(SagaRow.heading).where(SagaRow.id == saga_id)
    assert await desk.store.read(lambda tx: tx.execute(heading).scalar_one()) == "leaving"


async def test_a_refused_way_back_behind_the_pivot_ends_there_too(desk: Desk) -> None:
    desk.probe.arm("stall.glaze/fire/forward/after", lambda: Conflict("It burst."))
    desk.probe.arm("stall.glaze/mend/failing/after", lambda: Conflict("It is dust."))
    saga_id = await desk.start(GLAZE, "o1")
    with pytest.raises(Conflict, match="It burst"):
        await desk.engine.ended(saga_id)
    [mark] = [row for row in await desk.sagas() if row[0] == "stall.glaze"]
    assert mark == ("stall.glaze", "ended", "failed")
    assert desk.ledger.parcels == {"fired": "o1", "mended": "o1", "swept": "o1"}
