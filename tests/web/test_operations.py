from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from mooring.fence import table
from mooring.fence.operation import parse
from mooring.fence.rules import Answer, Gone
from mooring.store.base import Store, open_store
from tests.web.harbour import Visitor

pytestmark = pytest.mark.anyio
OPERATION = parse("saga-1.reserve;1;7")
URL = "/compute/v2.1/mooring/operations/saga-1.reserve"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[Store]:
    opened = await open_store(str(tmp_path), "identity", inline=True)
    yield opened
    await opened.close()


async def test_an_operation_that_came_tells_what_it_made_and_ends(store: Store) -> None:
    def make(tx: Session) -> None:
        assert table.admit(tx, OPERATION, "boat:1") is None
        table.record(tx, OPERATION, "boat:1", Answer(status=200), made=["boat-1"])

    await store.write(make)
    for _ in range(2):
        answer = await Visitor(store=store).ask("DELETE", URL, who="volume")
        assert (answer.status, answer.json) == (200, {"made": ["boat-1"]})
    with pytest.raises(Gone):
        await store.write(lambda tx: table.admit(tx, OPERATION, "boat:1"))


async def test_an_operation_that_never_came_is_refused_when_it_does(store: Store) -> None:
    answer = await Visitor(store=store).ask("DELETE", URL, who="volume")
    assert answer.json == {"made": []}
    with pytest.raises(Gone):
        await store.write(lambda tx: table.admit(tx, OPERATION, "boat:1"))
