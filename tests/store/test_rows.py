"""What holds for changing one row with a statement that was built once, on any database."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from sqlalchemy import bindparam
from sqlalchemy.orm import Session

from mooring.errors import Conflict
from mooring.store.base import Store, savepoint
from mooring.store.rows import Change
from tests.store.boats import Sailor

pytestmark = pytest.mark.anyio
HIRED = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
change = Change(Sailor)
promote = Change(Sailor, lambda columns: columns.title.in_(bindparam("among", expanding=True)))


@pytest.fixture
async def crew(store: Store) -> Store:
    sailors = [Sailor(id=number, boat="ark", rank="mate") for number in (1, 2)]
    await store.write(lambda tx: tx.add_all(sailors))
    return store


async def seen(store: Store) -> list[tuple[str | None, datetime | None]]:
    sailors = await store.read(lambda tx: [tx.get_one(Sailor, number) for number in (1, 2)])
    return [(sailor.rank, sailor.hired_at) for sailor in sailors]


async def test_it_changes_one_row_by_the_names_of_its_attributes(crew: Store) -> None:
    values = {"rank": None, "hired_at": HIRED}
    assert await crew.write(lambda tx: change(tx, 1, values))
    assert await seen(crew) == [(None, HIRED), ("mate", None)]


async def test_a_condition_that_does_not_hold_changes_nothing(crew: Store) -> None:
    values = {"rank": "captain"}
    assert not await crew.write(lambda tx: promote(tx, 1, values, among=["cook", "boatswain"]))
    assert await seen(crew) == [("mate", None), ("mate", None)]
    assert await crew.write(lambda tx: promote(tx, 1, values, among=["cook", "mate"]))
    assert await seen(crew) == [("captain", None), ("mate", None)]


async def test_a_row_that_is_gone_is_told(crew: Store) -> None:
    assert not await crew.write(lambda tx: change(tx, 3, {"rank": "captain"}))


async def test_what_the_session_has_loaded_or_changed_stays_right(crew: Store) -> None:
    def look(tx: Session) -> tuple[str | None, datetime | None]:
        sailor = tx.get_one(Sailor, 1)
        sailor.rank = "cook"
        assert promote(tx, 1, {"hired_at": HIRED}, among=["cook"])
        assert not promote(tx, 1, {"hired_at": None}, among=["mate"])
        return sailor.rank, sailor.hired_at

    assert await crew.write(look) == ("cook", HIRED)
    assert await seen(crew) == [("cook", HIRED), ("mate", None)]


async def test_what_a_savepoint_takes_back_is_not_seen_any_more(crew: Store) -> None:
    def fail(tx: Session) -> None:
        with savepoint(tx):
            assert change(tx, 1, {"rank": "cook"})
            with savepoint(tx):
                assert change(tx, 2, {"rank": "cook"})
            raise Conflict("No cook is wanted.")

    def look(tx: Session) -> list[str | None]:
        sailors = [tx.get_one(Sailor, number) for number in (1, 2)]
        assert change(tx, 1, {"rank": "boatswain"})
        with pytest.raises(Conflict):
            fail(tx)
        return [sailor.rank for sailor in sailors]

    assert await crew.write(look) == ["boatswain", "mate"]


async def test_an_attribute_that_is_not_there_is_refused(crew: Store) -> None:
    with pytest.raises(KeyError, match="beard"):
        await crew.write(lambda tx: change(tx, 1, {"beard": "long"}))
