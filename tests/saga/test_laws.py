"""Every law, on the sagas of the shop, at every point they have."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from mooring.errors import MooringError
from mooring.saga import laws
from mooring.saga.define import Saga
from mooring.saga.laws import Crash, LawProbe
from mooring.saga.tables import LockRow, SagaRow
from tests.saga.shop import CANCEL, PACK, SEND, WRAP, Desk, Ledger, Order

pytestmark = pytest.mark.anyio

READY_FOR = {PACK.name: "new", SEND.name: "packed", CANCEL.name: "packed", WRAP.name: "packed"}


class ShopWorld:
    """One order, ready for one saga."""

    def __init__(self, location: str, saga: Saga[Order]) -> None:
        self.saga, self.ledger, self.probe = saga, Ledger(), LawProbe()
        self.desk = Desk(location, self.ledger, self.probe)

    async def arrange(self) -> None:
        await self.desk.open()
        await self.desk.add("o1")
        if READY_FOR[self.saga.name] == "packed":
            await self.desk.engine.ended(await self.desk.pack("o1"))

    async def act(self) -> None:
        with contextlib.suppress(MooringError):
            if self.saga is PACK:
                await self.desk.pack("o1")
            else:
                await self.desk.start(self.saga, "o1")

    async def settle(self) -> None:
        await self.desk.engine.settle()

    async def restart(self) -> None:
        await self.desk.restart()

    async def snapshot(self) -> dict[str, Any]:
        return {"orders": await self.desk.statuses(), "parcels": set(self.ledger.parcels)}

    async def ending(self, saga: Saga[Any]) -> str:
        newest = select(SagaRow.outcome).where(SagaRow.name == saga.name)
        query = newest.order_by(SagaRow.created_at.desc())
        return await self.desk.store.read(lambda tx: tx.execute(query).scalars().first() or "")

    async def complaints(self) -> list[str]:
        def look(tx: Any) -> list[str]:
            open_sagas = tx.execute(
                select(SagaRow.id, SagaRow.step).where(SagaRow.state != "ended")
            )
            found = [f"saga {row[0]} rests at {row[1]}" for row in open_sagas]
            return found + [
                f"lock {key} is held" for key in tx.execute(select(LockRow.key)).scalars()
            ]

        return await self.desk.store.read(look)


@pytest.fixture
async def desks() -> AsyncIterator[list[Desk]]:
    opened: list[Desk] = []
    yield opened
    for desk in opened:
        await desk.close()


async def make(desks: list[Desk], location: Path, saga: Saga[Order]) -> ShopWorld:
    world = ShopWorld(f"{location}", saga)
    await world.arrange()
    desks.append(world.desk)
    return world


SAGAS = laws.sagas_of("shop")
POINTS = [(saga, point) for saga in SAGAS for point in laws.points_of(saga)]
FORWARD = [(saga, point) for saga, point in POINTS if "/forward/" in point]


def passed_forward(points: tuple[str, ...], saga: Saga[Any]) -> list[str]:
    return [point for point in points if point.startswith(f"{saga.name}/") and "/forward/" in point]


def of_forward(when: str) -> list[Any]:
    return [pytest.param(saga, point, id=point) for saga, point in FORWARD if point.endswith(when)]


@pytest.mark.parametrize(("saga", "point"), of_forward("/before") + of_forward("/after"))
async def test_failing_anywhere_leaves_no_trace_or_a_declared_end(
    saga: Saga[Order], point: str, desks: list[Desk], tmp_path: Path
) -> None:
    outcome = await laws.learn(await make(desks, tmp_path / "learn", saga))
    world = await make(desks, tmp_path / "fail", saga)
    await laws.hold_failure(world, saga, point, outcome)


@pytest.mark.parametrize(("saga", "point"), of_forward("/before") + of_forward("/after"))
async def test_crashing_anywhere_ends_after_the_restart(
    saga: Saga[Order], point: str, desks: list[Desk], tmp_path: Path
) -> None:
    outcome = await laws.learn(await make(desks, tmp_path / "learn", saga))
    world = await make(desks, tmp_path / "crash", saga)
    await laws.hold_crash(world, saga, point, outcome)


@pytest.mark.parametrize("nth", range(1, 12))
async def test_crashing_at_any_commit_ends_after_the_restart(
    nth: int, desks: list[Desk], tmp_path: Path
) -> None:
    outcome = await laws.learn(await make(desks, tmp_path / "learn", PACK))
    for when in ("before", "after"):
        world = await make(desks, tmp_path / when, PACK)
        world.probe.arm(f"store.shop/commit/{when}", Crash, nth=nth)
        await laws.live_through(world)
        assert await world.complaints() == []
        assert await world.snapshot() in (outcome.before, outcome.after)


def of_back() -> list[Any]:
    return [
        pytest.param(point, id=point)
        for saga, point in POINTS
        if saga is PACK and "/back/" in point
    ]


LEAVING = [point for point in laws.points_of(WRAP) if "/leaving/" in point]
REFUSED = [
    f"shop.wrap_order/{step}/back/{when}"
    for step in ("wrap", "tie")
    for when in ("before", "after")
]


@pytest.mark.parametrize("refused", REFUSED)
@pytest.mark.parametrize("crash", ["", *LEAVING])
async def test_an_undo_refused_for_good_leads_to_its_declared_end(
    refused: str, crash: str, desks: list[Desk], tmp_path: Path
) -> None:
    world = await make(desks, tmp_path / "refuse", WRAP)
    failing = "shop.wrap_order/await_courier/forward/before"
    assert await laws.hold_refusal(world, WRAP, failing, refused, crash=crash)
    assert crash in {"", *world.probe.passed}
    found = await world.snapshot()
    assert found["orders"] == {"o1": "spoilt"}
    assert "sold off:o1" in found["parcels"]
    # What was undone before the refusal stays undone, and nothing is undone behind it.
    kept = {"paper:o1"} if refused.endswith("tie/back/after") else set[str]()
    kept |= {"paper:o1", "ribbon:o1"} if refused.endswith("tie/back/before") else set[str]()
    kept |= {"paper:o1"} if refused.endswith("wrap/back/before") else set[str]()
    assert found["parcels"] & {"paper:o1", "ribbon:o1"} == kept


@pytest.mark.parametrize("point", of_back())
async def test_crashing_while_unwinding_still_leaves_no_trace(
    point: str, desks: list[Desk], tmp_path: Path
) -> None:
    outcome = await laws.learn(await make(desks, tmp_path / "learn", PACK))
    world = await make(desks, tmp_path / "crash", PACK)
    failing = "shop.pack_order/mark_packed/forward/before"
    await laws.hold_crash_in_undo(world, PACK, failing, point, outcome)


@pytest.mark.parametrize("saga", SAGAS, ids=lambda saga: saga.name)
async def test_every_generated_point_is_passed_by_some_law(
    saga: Saga[Order], desks: list[Desk], tmp_path: Path
) -> None:
    world = await make(desks, tmp_path / "learn", saga)
    outcome = await laws.learn(world)
    missing = [point for _, point in FORWARD if point.startswith(saga.name)]
    assert [point for point in missing if point not in outcome.points] == []
