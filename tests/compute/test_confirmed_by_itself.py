"""What is confirmed without its user's word is the move that was looked at, and no later one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.compute.hosts import draining
from mooring.compute.moves import cold_migrating
from mooring.compute.moves.loops import confirm_resizes
from tests.compute.moving import Moving, moving_server
from tests.compute.verifying import ask, migrate, show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio


@pytest.fixture
async def moving(keeper: Keeper, database: str) -> AsyncGenerator[Moving]:
    hosts = ("host1", "host2", "host3")
    async with moving_server(keeper, hosts=hosts, volumes=1, database=database) as made:
        yield made


@pytest.fixture
def faster(moving: Moving, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have the user revert and move again between the look and the word; return for which moves."""
    confirm, seen = cold_migrating.confirm, list[int]()

    async def confirm_late(*args: Any, only: int) -> None:
        seen.append(only)
        if len(seen) == 1:
            assert await ask(moving, "revertResize") == 202
            await migrate(moving)
        await confirm(*args, only=only)

    monkeypatch.setattr(cold_migrating, "confirm", confirm_late)
    return seen


async def waits_for_its_user(moving: Moving) -> None:
    """See that the second move is its user's to confirm."""
    await moving.cloud.settle()
    assert (await show(moving))["status"] == "VERIFY_RESIZE"
    assert [one["status"] for one in await moving.migrations()] == ["finished", "reverted"]


async def test_a_window_that_is_over_confirms_no_later_move(
    moving: Moving, faster: list[int]
) -> None:
    compute = moving.cloud.compute
    compute.settings = replace(compute.settings, resize_confirm_window=60.0)
    await migrate(moving)
    await moving.cloud.pass_time(120.0)
    await moving.cloud.look_at_hosts()
    await confirm_resizes.confirm_once(compute)
    await waits_for_its_user(moving)
    assert len(faster) == 1


async def test_a_drain_confirms_no_later_move_of_a_user(moving: Moving, faster: list[int]) -> None:
    assert await ask(moving, "os-stop") == 202
    path = f"/mooring/drains/{moving.source}"
    assert (await moving.cloud.ask("PUT", path, user="admin")).status == 202
    await draining.advance_all(moving.cloud.compute)
    await moving.cloud.settle()
    assert await moving.status() == "finished"
    assert (await moving.cloud.ask("DELETE", path, user="admin")).status == 204
    await draining.advance_all(moving.cloud.compute)
    await waits_for_its_user(moving)
    assert len(faster) == 1
