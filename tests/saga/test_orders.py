"""In which order transactions lock what they share: none waits for one that waits for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session

from mooring.saga import locks, ownership
from mooring.saga.define import Lock, Run, Saga, Step, exclusive
from mooring.saga.laws import LawProbe
from tests.saga.shop import CANCEL, Desk, Ledger, Order, Shop

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]
PATIENCE_S = 20.0
_waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")


class Meeting:
    """Two transactions: the second has drawn the counter, and waits until the first wants it."""

    def __init__(self) -> None:
        self.has_arrived, self.has_drawn = threading.Event(), threading.Event()
        self.runs: list[str] = []

    def arrive(self, name: str) -> None:
        """Note that a transaction runs; the first goes on once the second has the counter."""
        self.runs.append(name)
        self.has_arrived.set()
        assert self.has_drawn.wait(PATIENCE_S)

    def stay(self, tx: Session) -> None:
        """Return once somebody waits for this transaction, or for another one."""
        self.has_drawn.set()
        until = time.monotonic() + PATIENCE_S
        while not tx.scalar(_waiting):
            assert time.monotonic() < until, "nobody waits"


@pytest.fixture
async def desk(postgres_url: str) -> AsyncIterator[Desk]:
    made = Desk(postgres_url, Ledger(), LawProbe())
    await made.open()
    await made.add("o1")
    yield made
    await made.close()


@pytest.fixture
def meeting(monkeypatch: pytest.MonkeyPatch) -> Meeting:
    """A meeting whose second transaction is the one that looks who is in its way."""
    made, find = Meeting(), locks.find_obstacles

    def find_late(tx: Session, *wanted: Any) -> list[str]:
        if not made.has_drawn.is_set() and made.has_arrived.is_set():
            made.stay(tx)
        return find(tx, *wanted)

    monkeypatch.setattr(locks, "find_obstacles", find_late)
    return made


_met: list[Meeting] = []


def stamp(tx: Session, notes: Order, run: Run[Shop]) -> None:
    del tx, notes, run
    _met[0].arrive("stamp")


async def look(notes: Order, run: Run[Shop]) -> None:
    del notes, run


async def ask_as_of_now(notes: Order, run: Run[Shop]) -> None:
    del notes

    def ask(tx: Session) -> None:
        _met[0].arrive("ask")
        ownership.as_of_now(tx, run)

    await run.service.store.write(ask)


def locks_of(notes: Order) -> list[Lock]:
    return [exclusive(f"order:{notes.order_id}")]


STAMP = Saga("shop.stamp_order", Order, Step("look", look), Step("stamp", stamp), locks=locks_of)
ASK = Saga(
    "shop.ask_order",
    Order,
    Step("ask_as_of_now", ask_as_of_now),
    Step("look", look),
    locks=locks_of,
)


@pytest.mark.parametrize(("saga", "name"), [(STAMP, "stamp"), (ASK, "ask")])
async def test_who_ends_and_who_takes_the_place_do_not_wait_for_each_other(
    desk: Desk, meeting: Meeting, saga: Saga[Order], name: str
) -> None:
    _met[:] = [meeting]

    def begin(tx: Session) -> str:
        meeting.runs.append("begin")
        return desk.engine.start(tx, CANCEL, Order("o1"))

    await desk.start(saga, "o1")
    assert await asyncio.to_thread(meeting.has_arrived.wait, PATIENCE_S)
    second = await desk.engine.submit(begin)
    await desk.engine.settle()
    await desk.engine.ended(second)
    assert sorted(meeting.runs) == sorted(["begin", name])
    assert await desk.statuses() == {"o1": "cancelled"}
