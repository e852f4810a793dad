"""A database in trouble decides nothing: what it interrupted is run again."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session
from structlog.testing import capture_logs

from mooring.saga.define import Run, Saga, Step, exclusive
from mooring.saga.laws import LawProbe
from tests.saga.shop import SEND, Desk, Ledger, Order, Shop, record_lost, set_status
from tests.wire import Wire, at_word

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

_trouble: list[str] = []


def weigh(tx: Session, notes: Order, run: Run[Shop]) -> None:
    del run
    while _trouble:
        state = _trouble.pop()
        tx.execute(text(f"DO $$ BEGIN RAISE EXCEPTION 'now' USING ERRCODE = '{state}'; END $$"))
    set_status(tx, notes.order_id, "weighed", among=("new",))


WEIGH = Saga(
    "shop.weigh_order",
    Order,
    Step("weigh", weigh),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
    pivot="weigh",
    failed_end=[Step("record_lost", record_lost)],
)


async def carry(notes: Order, run: Run[Shop]) -> None:
    """Do something outside, so that what follows is written by the engine."""


CARRY = Saga(
    "shop.carry_order",
    Order,
    Step("carry", carry),
    Step("weigh", weigh),
    locks=lambda notes: [exclusive(f"order:{notes.order_id}")],
    pivot="weigh",
    failed_end=[Step("record_lost", record_lost)],
)


@pytest.fixture
async def desk(wired_url: str) -> AsyncIterator[Desk]:
    """A shop with one order, "o1", on a PostgreSQL whose wire can be cut."""
    made = Desk(wired_url, Ledger(), LawProbe())
    await made.open()
    await made.add("o1")
    yield made
    await made.close()


@pytest.mark.parametrize("state", ["40001", "40P01"], ids=["serialization", "deadlock"])
async def test_what_the_database_takes_back_is_no_failure_of_the_step(
    desk: Desk, state: str
) -> None:
    _trouble[:] = [state]
    saga_id = await desk.start(WEIGH, "o1")
    await desk.engine.settle()
    await desk.engine.ended(saga_id)
    assert await desk.statuses() == {"o1": "weighed"}


async def test_a_full_disk_is_one_line_of_the_log_and_decides_nothing(desk: Desk) -> None:
    _trouble[:] = ["53100"]
    with capture_logs() as logs:
        saga_id = await desk.start(CARRY, "o1")
        await desk.engine.settle()
    await desk.engine.ended(saga_id)
    assert await desk.statuses() == {"o1": "weighed"}
    (line,) = logs
    assert (line["event"], line["log_level"], line["saga"]) == ("saga.trouble", "warning", saga_id)
    assert "no room left on its disk" in line["error"]
    assert "exc_info" not in line


@pytest.mark.parametrize("word", [b"COMMIT", b"UPDATE orders", b"saga_history"])
@pytest.mark.parametrize("cut", ["before", "after"])
async def test_a_lost_connection_decides_nothing(
    desk: Desk, postgres_wire: Wire, word: bytes, cut: str
) -> None:
    await desk.pack("o1")
    await desk.engine.settle()
    postgres_wire.rule = at_word(word, "after" if cut == "after" else "before", times=3)
    saga_id = await desk.start(SEND, "o1")
    await desk.engine.settle()
    await desk.engine.ended(saga_id)
    assert postgres_wire.cuts == 3
    assert await desk.statuses() == {"o1": "sent"}
    assert [saga[1:] for saga in await desk.sagas()] == [("ended", "done")] * 2
