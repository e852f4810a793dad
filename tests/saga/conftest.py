"""Where the shop keeps its books: on each database."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mooring.saga.laws import LawProbe
from tests.saga.shop import Desk, Ledger


@pytest.fixture
async def desk(location: str) -> AsyncIterator[Desk]:
    """A shop with one order, "o1"."""
    made = Desk(location, Ledger(), LawProbe())
    await made.open()
    await made.add("o1")
    yield made
    await made.close()
