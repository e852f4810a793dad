"""A guest that a dead host was said to have lost, and that ends only later."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.compute.moving import Moving, moving_server
from tests.compute.test_evacuation import HOSTS, OLD, is_there
from tests.compute.verifying import force_down
from tests.kept import Keeper
from tests.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def moving(keeper: Keeper) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, hosts=HOSTS) as made:
        yield made


async def test_a_guest_that_ends_late_is_waited_for(moving: Moving) -> None:
    await force_down(moving.cloud, moving.source, down=True)
    body = {"evacuate": {"host": moving.destination}}
    path = f"/servers/{moving.server_id}/action"
    await moving.cloud.ask("POST", path, body, user="admin", version=OLD)

    async def is_off_there() -> bool:
        await moving.cloud.pass_time(5.0)
        return await moving.states() == ["running", "stopped"]

    await until(is_off_there, "the guest is at the other host, and does not run there")
    moving.cloud.hypervisor(moving.source).crash(moving.server_id)
    await moving.cloud.settle()
    await is_there(moving)
