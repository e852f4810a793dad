"""What holds for objects that prepared statements load, on any database."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import UTC, datetime

import pytest
from sqlalchemy import bindparam, insert, inspect, select
from sqlalchemy.exc import IntegrityError, NoResultFound
from sqlalchemy.orm import Session

from mooring.errors import Conflict
from mooring.store.base import Store, savepoint
from mooring.store.loaded import Adding, ById, Loaded, LoadedAmong
from tests.store import boats
from tests.store.boats import Boat, Sailor

pytestmark = pytest.mark.anyio
HIRED = datetime(2026, 1, 2, 3, 4, 5, 6, UTC)
_sailors, _boats = ById(Sailor), ById(Boat)
_add_sailor, _add_boat = Adding(Sailor), Adding(Boat)
_crew_of = Loaded(
    Sailor,
    lambda columns: columns.boat == bindparam("of_boat"),
    lambda columns: columns.id != 7,
    order_by=lambda columns: [columns.id.desc()],
)


@pytest.fixture
async def crew(store: Store) -> Store:
    log = {"mood": ["calm"]}
    sailors = [Sailor(id=number, boat="ark", rank="mate", hired_at=HIRED) for number in (1, 2, 7)]
    await store.write(lambda tx: tx.add_all([Boat(name="bounty", log=log), *sailors]))
    return store


async def test_an_object_is_as_a_query_would_load_it(crew: Store) -> None:
    def look(tx: Session) -> None:
        sailor, boat = _sailors.one(tx, 1), _boats.one(tx, "bounty")
        assert (sailor.id, sailor.boat, sailor.rank, sailor.hired_at) == (1, "ark", "mate", HIRED)
        assert boat.log == {"mood": ["calm"]}
        assert inspect(sailor).persistent
        assert not tx.dirty
        assert tx.get(Sailor, 1) is sailor
        assert tx.scalars(select(Sailor).where(Sailor.id == 1)).one() is sailor

    await crew.read(look)
    await crew.write(look)


async def test_objects_come_in_the_order_and_by_the_conditions_that_were_asked_for(
    crew: Store,
) -> None:
    found = await crew.read(lambda tx: [one.id for one in _crew_of.all(tx, of_boat="ark")])
    assert found == [2, 1]
    first = await crew.read(lambda tx: _crew_of.first(tx, of_boat="ark"))
    assert first is not None
    assert first.id == 2
    assert await crew.read(lambda tx: _crew_of.first(tx, of_boat="bounty")) is None


async def test_a_row_that_is_not_there_is_none_or_an_error(crew: Store) -> None:
    assert await crew.read(lambda tx: _sailors.find(tx, 3)) is None
    with pytest.raises(NoResultFound, match="Sailor 3"):
        await crew.read(lambda tx: _sailors.one(tx, 3))


async def test_what_is_changed_on_it_is_written(crew: Store) -> None:
    def promote(tx: Session) -> None:
        sailor = _sailors.one(tx, 1)
        sailor.rank = "captain"
        assert [one.rank for one in _crew_of.all(tx, of_boat="ark")] == ["mate", "captain"]
        assert _sailors.find(tx, 1) is sailor

    await crew.write(promote)
    assert await crew.read(lambda tx: _sailors.one(tx, 1).rank) == "captain"


async def test_what_was_added_is_found_before_it_is_committed(crew: Store) -> None:
    def hire(tx: Session) -> int:
        tx.add(Sailor(id=9, boat="bounty"))
        return len(_crew_of.all(tx, of_boat="bounty"))

    assert await crew.write(hire) == 1


async def test_two_writes_that_change_what_they_have_loaded_both_succeed(crew: Store) -> None:
    """The row of an object is locked while a write lasts, as for one that a query loads."""

    def sail(tx: Session) -> None:
        boat = _boats.one(tx, "ark")
        boat.log = [*(boat.log or []), "sailed"]

    await asyncio.gather(*(crew.write(sail) for _ in range(50)))
    assert await crew.read(lambda tx: len(_boats.one(tx, "ark").log)) == 50


async def test_a_savepoint_that_is_taken_back_takes_back_objects(crew: Store) -> None:
    def try_it(tx: Session) -> tuple[str | None, bool, list[int]]:
        kept, gone = _sailors.one(tx, 1), _sailors.one(tx, 2)
        kept.rank = "cook"
        with suppress(Conflict), savepoint(tx):
            kept.rank = "captain"
            tx.delete(gone)
            tx.add(Sailor(id=8, boat="ark"))
            tx.flush()
            tx.add(Sailor(id=9, boat="ark"))
            _sailors.one(tx, 8).rank = "stowaway"
            raise Conflict("no")
        gone.rank = "boatswain"
        held = {one.id for one in tx if isinstance(one, Sailor)}
        return kept.rank, gone in tx, sorted(held)

    assert await crew.write(try_it) == ("cook", True, [1, 2])
    ranks = {
        one.id: one.rank for one in await crew.read(lambda tx: _crew_of.all(tx, of_boat="ark"))
    }
    assert ranks == {1: "cook", 2: "boatswain"}


async def test_a_constraint_broken_by_an_object_inside_a_savepoint_harms_nothing_else(
    crew: Store,
) -> None:
    """The session then loses its transaction, and the store runs the call again with care."""

    def crowd(tx: Session) -> str:
        _sailors.one(tx, 1).rank = "cook"
        try:
            with savepoint(tx):
                _sailors.one(tx, 2).rank = "captain"
                tx.add(Sailor(id=3, boat="nobody's"))
        except IntegrityError:
            tx.add(Boat(name="cutter"))
            return "told"
        return "not told"

    assert await crew.write(crowd) == "told"
    found = await crew.read(lambda tx: [one.rank for one in _crew_of.all(tx, of_boat="ark")])
    assert found == ["mate", "cook"]
    assert "cutter" in await boats.names(crew)


async def test_a_constraint_broken_by_a_statement_inside_a_savepoint_harms_nothing_else(
    crew: Store,
) -> None:
    def crowd(tx: Session) -> None:
        sailor = _sailors.one(tx, 1)
        with suppress(IntegrityError), savepoint(tx):
            sailor.rank = "captain"
            tx.execute(insert(Boat).values(name="ark", trips=0))
            raise Conflict("The second ark was taken for a new one.")
        sailor.rank = f"no {sailor.rank}"

    await crew.write(crowd)
    assert await crew.read(lambda tx: _sailors.one(tx, 1).rank) == "no mate"


async def test_what_is_written_down_has_its_columns_defaults_and_is_held(crew: Store) -> None:
    def build(tx: Session) -> None:
        boat = _add_boat(tx, Boat(name="cutter", log={"mood": None}))
        assert (boat.trips, boat.seen_at) == (0, None)
        assert inspect(boat).persistent
        assert not tx.dirty
        assert _boats.find(tx, "cutter") is boat
        boat.trips = 5

    await crew.write(build)
    found = await crew.read(lambda tx: tx.get_one(Boat, "cutter"))
    assert (found.trips, found.log, found.seen_at) == (5, {"mood": None}, None)


async def test_a_number_that_the_database_gives_is_known_at_once(store: Store) -> None:
    numbers = await store.write(
        lambda tx: [_add_sailor(tx, Sailor(boat="ark")).id for _ in range(2)]
    )
    assert numbers == [1, 2]
    assert await store.read(lambda tx: _sailors.one(tx, numbers[1]).boat) == "ark"


async def test_what_may_not_be_written_down_is_an_integrity_error(crew: Store) -> None:
    with pytest.raises(IntegrityError):
        await crew.write(lambda tx: _add_boat(tx, Boat(name="ark")))
    assert await boats.names(crew) == ["ark", "bounty"]


async def test_objects_of_many_values_are_those_that_the_session_holds(crew: Store) -> None:
    of_ids = LoadedAmong(Sailor, "id")

    def look(tx: Session) -> None:
        held = _sailors.one(tx, 2)
        held.rank = "cook"
        found = {sailor.id: sailor for sailor in of_ids.among(tx, [7, 2, 5])}
        assert found.keys() == {2, 7}
        assert found[2] is held
        assert found[2].rank == "cook"
        assert of_ids.among(tx, []) == []

    await crew.write(look)
