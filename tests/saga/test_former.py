"""Bookmarks of the version before are read as today's when they are taken over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from mooring.errors import Conflict
from mooring.saga.define import REGISTRY, Each, Former, Park, Run, Saga, Step
from tests.saga.shop import Desk, Shop

pytestmark = pytest.mark.anyio


class Old(Struct, frozen=True):
    order_id: str
    pieces: tuple[str, ...] = ("a", "b")
    is_broken: bool = False


class New(Struct, frozen=True):
    order: str
    pieces: tuple[str, ...] = ()


async def rest(notes: Any, run: Run[Shop]) -> None:
    del notes, run
    raise Park(timeout_s=86400.0)


async def nail(notes: Old, item: str, run: Run[Shop]) -> None:
    if item == "b":
        await rest(notes, run)
    run.service.ledger.put(f"nail {item}", "in")


async def stall(notes: Any, run: Run[Shop]) -> None:
    del notes, run
    raise Conflict("It will not come out.")


async def fail(notes: Any, run: Run[Shop]) -> None:
    del notes, run
    raise Conflict("It does not hold.")


def put(word: str) -> Callable[..., Any]:
    async def do(notes: New, run: Run[Shop]) -> None:
        run.service.ledger.put(word, notes.order)

    return do


def read_notes(old: dict[str, Any]) -> dict[str, Any]:
    return {"order": old["order_id"], "pieces": old["pieces"]}


async def take_over(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, old: Saga[Old], notes: Old, make: Callable[[], Any]
) -> None:
    """Begin with the old table, die, and go on with the new one alone."""
    try:
        await desk.engine.submit(lambda tx: desk.engine.start(tx, old, notes))
        await desk.engine.schedule.quiet()
        await desk.engine.stop()
        await desk.let_leases_end()
        monkeypatch.delitem(REGISTRY, (old.name, old.version))
        make()
        await desk.restart()
        await desk.engine.settle()
    finally:
        for key in [key for key in REGISTRY if key[0] == old.name]:
            del REGISTRY[key]
        # What was taken out comes back at the end of the test, and is nobody's by then.
        monkeypatch.setitem(REGISTRY, (old.name, old.version), old)


async def test_a_step_is_found_by_its_new_name_with_new_notes(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Saga("stall.mend", Old, Step("begin", put_old), Step("glue", rest))

    def make() -> Any:
        former = Former({"glue": "fix"}, read_notes)
        steps = (Step("begin", put("begun again")), Step("fix", put("fixed")))
        return Saga("stall.mend", New, *steps, version=2, former=former)

    await take_over(desk, monkeypatch, old, Old("o1"), make)
    assert ("stall.mend", "ended", "done") in await desk.sagas()
    assert desk.ledger.parcels == {"begun": "o1", "fixed": "o1"}


async def put_old(notes: Old, run: Run[Shop]) -> None:
    run.service.ledger.put("begun", notes.order_id)


async def test_what_was_done_for_each_item_may_be_one_step_now(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = Each("pieces", lambda notes: notes.pieces, Step("nail", nail))
    old = Saga("stall.mend", Old, each)

    def make() -> Any:
        former = Former({"nail": "nail_all"}, read_notes)
        return Saga("stall.mend", New, Step("nail_all", put("nailed")), version=2, former=former)

    await take_over(desk, monkeypatch, old, Old("o1"), make)
    assert ("stall.mend", "ended", "done") in await desk.sagas()
    assert desk.ledger.parcels == {"nail a": "in", "nailed": "o1"}


async def test_an_unwinding_that_had_met_with_a_refusal_goes_to_its_end(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Saga("stall.mend", Old, Step("begin", put_old, undo=stall), Step("glue", fail))

    def make() -> Any:
        former = Former(notes=read_notes, leaves=lambda notes: notes["is_broken"])
        steps = (Step("begin", put("begun"), undo=put("undone")),)
        ends = (Step("give_up", put("given up")),)
        return Saga("stall.mend", New, *steps, version=2, former=former, undo_ends=ends)

    await take_over(desk, monkeypatch, old, Old("o1", is_broken=True), make)
    assert ("stall.mend", "ended", "failed") in await desk.sagas()
    assert desk.ledger.parcels == {"begun": "o1", "given up": "o1"}


async def test_a_version_that_nobody_reads_is_left_alone(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Saga("stall.mend", Old, Step("glue", rest))
    await take_over(desk, monkeypatch, old, Old("o1"), lambda: Saga("stall.mend", New, version=2))
    assert ("stall.mend", "parked", "") in await desk.sagas()


def test_a_first_version_has_no_former() -> None:
    with pytest.raises(ValueError, match="is the first"):
        Saga("stall.mend", New, Step("fix", rest), former=Former())
