"""What holds for statements that are compiled once, on any database."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from msgspec import Struct
from sqlalchemy import Table, bindparam, delete, insert, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from mooring.errors import Bug, Conflict
from mooring.store.base import Store, savepoint
from mooring.store.prepared import Among, Change, Prepared
from tests.store.boats import Sailor

pytestmark = pytest.mark.anyio
_sailors = cast("Table", Sailor.__table__)
HIRED = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
change = Change(Sailor)
promote = Change(Sailor, among="title")


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
    assert not await crew.write(lambda tx: promote(tx, 1, values, allowed=["cook", "boatswain"]))
    assert await seen(crew) == [("mate", None), ("mate", None)]
    assert await crew.write(lambda tx: promote(tx, 1, values, allowed=["cook", "mate"]))
    assert await seen(crew) == [("captain", None), ("mate", None)]


async def test_a_row_that_is_gone_is_told(crew: Store) -> None:
    assert not await crew.write(lambda tx: change(tx, 3, {"rank": "captain"}))


async def test_what_the_session_has_loaded_or_changed_stays_right(crew: Store) -> None:
    def look(tx: Session) -> tuple[str | None, datetime | None]:
        sailor = tx.get_one(Sailor, 1)
        sailor.rank = "cook"
        assert promote(tx, 1, {"hired_at": HIRED}, allowed=["cook"])
        assert not promote(tx, 1, {"hired_at": None}, allowed=["mate"])
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


async def test_a_savepoint_of_the_sessions_own_takes_it_back_too(crew: Store) -> None:
    def look(tx: Session) -> None:
        assert change(tx, 2, {"rank": "boatswain"})
        with suppress(Conflict), tx.begin_nested():
            assert change(tx, 1, {"rank": "cook"})
            raise Conflict("No cook is wanted.")

    await crew.write(look)
    assert await seen(crew) == [("mate", None), ("boatswain", None)]


async def test_an_attribute_that_is_not_there_is_refused(crew: Store) -> None:
    with pytest.raises(KeyError, match="beard"):
        await crew.write(lambda tx: change(tx, 1, {"beard": "long"}))


class Mate(Struct, frozen=True):
    """A row of the query below."""

    id: int
    rank: str | None
    hired_at: datetime | None


_of_boat = Prepared(
    select(_sailors.c.id, _sailors.c.title, _sailors.c.hired_at)
    .where(_sailors.c.boat == bindparam("of_boat"), _sailors.c.id != 7)
    .order_by(_sailors.c.id),
    Mate,
)
_hire = Prepared(insert(_sailors).inline())
_among = Prepared(
    select(_sailors.c.id).where(_sailors.c.title.in_(bindparam("titles", expanding=True))), int
)


def hire(number: int, boat: str = "ark") -> Callable[[Session], int]:
    row = {"id": number, "boat": boat, "title": None, "hired_at": HIRED}
    return lambda tx: _hire.run(tx, row)


async def test_rows_come_as_structs_with_the_types_of_their_columns(crew: Store) -> None:
    assert await crew.write(hire(3)) == 1
    found = await crew.read(lambda tx: _of_boat.all(tx, of_boat="ark"))
    assert found == [Mate(1, "mate", None), Mate(2, "mate", None), Mate(3, None, HIRED)]
    assert await crew.read(lambda tx: _of_boat.first(tx, of_boat="bounty")) is None


async def test_what_a_savepoint_takes_back_is_gone(crew: Store) -> None:
    def try_and_fail(tx: Session) -> list[Mate]:
        hire(3)(tx)
        with suppress(Conflict), savepoint(tx):
            hire(4)(tx)
            raise Conflict("no")
        hire(5)(tx)
        return _of_boat.all(tx, of_boat="ark")

    assert [mate.id for mate in await crew.write(try_and_fail)] == [1, 2, 3, 5]
    found = await crew.read(lambda tx: _of_boat.all(tx, of_boat="ark"))
    assert [mate.id for mate in found] == [1, 2, 3, 5]


async def test_a_write_that_fails_leaves_nothing(crew: Store) -> None:
    def fail(tx: Session) -> None:
        hire(3)(tx)
        raise Conflict("no")

    with pytest.raises(Conflict):
        await crew.write(fail)
    assert len(await crew.read(lambda tx: _of_boat.all(tx, of_boat="ark"))) == 2


async def test_a_broken_constraint_is_sqlalchemys_own_error(crew: Store) -> None:
    with pytest.raises(IntegrityError):
        await crew.write(hire(1))
    assert await crew.write(hire(3)) == 1


async def test_a_list_as_one_parameter_is_refused(crew: Store) -> None:
    with pytest.raises(Bug):
        await crew.read(lambda tx: _among.all(tx, titles=["mate"]))


_ranks_of = Among[tuple[int, str | None]](
    lambda ids: (
        select(_sailors.c.id, _sailors.c.title)
        .where(_sailors.c.id.in_(ids), _sailors.c.boat == bindparam("of_boat"))
        .order_by(_sailors.c.id)
    )
)
_dismiss = Among[Any](lambda ids: delete(_sailors).where(_sailors.c.id.in_(ids)))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 8, 9])
async def test_every_one_of_several_values_is_compared_with(crew: Store, count: int) -> None:
    numbers = range(10, 20)
    await crew.write(lambda tx: [hire(number)(tx) for number in numbers])
    found = await crew.read(lambda tx: _ranks_of.all(tx, numbers[:count], of_boat="ark"))
    assert found == [(number, None) for number in numbers[:count]]
    assert await crew.read(lambda tx: _ranks_of.all(tx, numbers[:count], of_boat="bounty")) == []
    assert await crew.write(lambda tx: _dismiss.run(tx, numbers[:count])) == count
    left = await crew.read(lambda tx: _ranks_of.all(tx, numbers, of_boat="ark"))
    assert [number for number, _ in left] == [*numbers[count:]]
