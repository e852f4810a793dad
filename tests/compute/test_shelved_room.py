"""A server that left its host is away, whatever placement says of its room (specs 001, Shelve)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from mooring.errors import Conflict
from tests.compute.pictured import Kept, kept_server
from tests.compute.verifying import show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio


@pytest.fixture
async def kept(keeper: Keeper, database: str) -> AsyncGenerator[Kept]:
    async with kept_server(keeper, database=database) as made:
        yield made


@pytest.fixture
async def unheard(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> Kept:
    """A server that was put away while placement refused to give its room back."""

    async def refuse(*_: object, **__: object) -> None:
        raise Conflict("No.")

    with monkeypatch.context() as refusing:
        refusing.setattr(kept.cloud.compute.placement, "release", refuse)
        assert await kept.act("shelve") == 202
    return kept


async def test_one_whose_room_is_not_given_back_is_away_all_the_same(unheard: Kept) -> None:
    server_id, host = unheard.moving.server_id, unheard.moving.source
    shown = await show(unheard.moving)
    assert (shown["status"], shown["OS-EXT-SRV-ATTR:host"]) == ("SHELVED_OFFLOADED", None)
    assert await unheard.cloud.complaints() == [f"allocation {server_id}: its server is at no host"]
    told = (
        f"The server was put away, but placement may still hold its room on host {host} "
        "(mooring doctor tells), until it is unshelved or deleted."
    )
    assert told in await unheard.why()
    assert await unheard.act("unshelve") == 202
    await unheard.is_back()


async def test_its_room_is_given_back_where_the_second_try_is_heard(kept: Kept) -> None:
    point = "compute.offload_server/release_claim/forward/before"
    kept.cloud.probe.arm(point, lambda: Conflict("No."))
    assert await kept.act("shelve") == 202
    await kept.is_away()


async def test_its_room_goes_with_one_that_is_deleted(unheard: Kept) -> None:
    path = f"/servers/{unheard.moving.server_id}"
    assert (await unheard.cloud.ask("DELETE", path)).status == 204
    await unheard.cloud.settle()
    assert await unheard.moving.claims() == [set(), set()]
    await unheard.doctor_finds_nothing()
