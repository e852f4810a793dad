"""A saga's places are those of the notes that it has now."""

from __future__ import annotations

import pytest
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.saga.define import Each, Run, Saga, Step
from tests.saga.shop import Desk, Order, Shop, pack

pytestmark = pytest.mark.anyio


async def find_parcels(notes: Order, run: Run[Shop]) -> Order:
    del run
    return replace(notes, parcels=("p7", "p8"))


def find_one_more(tx: Session, notes: Order, run: Run[Shop]) -> Order:
    del tx, run
    return replace(notes, parcels=(*notes.parcels, "p9"))


SEARCH = Saga(
    "stall.search",
    Order,
    Step("find_parcels", find_parcels),
    Step("find_one_more", find_one_more),
    Each("parcels", lambda notes: notes.parcels, Step("pack", pack)),
)


async def test_what_earlier_steps_found_has_places_of_its_own(desk: Desk) -> None:
    await desk.start(SEARCH, "o1")
    await desk.engine.settle()
    assert desk.ledger.parcels.keys() == {"o1/p7", "o1/p8", "o1/p9"}


def test_notes_that_can_change_are_refused() -> None:
    class Loose(Struct):
        order_id: str

    with pytest.raises(ValueError, match=r"stall\.loose are not frozen"):
        Saga("stall.loose", Loose, Step("find_parcels", find_parcels))
