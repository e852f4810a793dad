"""An evacuation begins while somebody says that the host lives, or begins it as well."""

from __future__ import annotations

import asyncio

import pytest

from tests.compute.moving import moving_server
from tests.compute.test_evacuation import ANYWHERE, HOSTS, OLD, come_back, die, is_there
from tests.compute.verifying import ask, force_down
from tests.kept import Keeper

pytestmark = pytest.mark.anyio


async def test_of_an_evacuation_and_a_word_that_the_host_lives_one_is_refused(
    keeper: Keeper, database: str
) -> None:
    async with moving_server(keeper, hosts=HOSTS, database=database) as moving:
        cloud = moving.cloud
        listed = await cloud.ask("GET", "/os-services", user="admin", version="2.100")
        services = {one["host"]: one["id"] for one in listed.body["services"]}
        action = f"/servers/{moving.server_id}/action"
        for first in (0, 1):
            moving.source = await moving.host()
            service = f"/os-services/{services[moving.source]}"
            asked = (("POST", action, ANYWHERE), ("PUT", service, {"forced_down": False}))
            await die(moving)
            in_turn = (asked[first], asked[1 - first])
            asking = (cloud.ask(*one, user="admin", version=OLD) for one in in_turn)
            statuses = [answer.status for answer in await asyncio.gather(*asking)]
            assert sorted(statuses) == [200, 400], statuses
            await cloud.settle()
            await come_back(moving)
            await force_down(cloud, moving.source, down=False)
            assert await ask(moving, "reboot", {"type": "HARD"}) == 202


async def test_of_eight_who_evacuate_a_server_at_once_one_does(
    keeper: Keeper, database: str
) -> None:
    async with moving_server(keeper, hosts=HOSTS, database=database) as moving:
        cloud = moving.cloud
        await die(moving)
        path = f"/servers/{moving.server_id}/action"
        asking = (cloud.ask("POST", path, ANYWHERE, user="admin", version=OLD) for _ in range(8))
        statuses = [answer.status for answer in await asyncio.gather(*asking)]
        # Who comes when it is over is told that the server's host is up.
        assert statuses.count(200) == 1, statuses
        assert set(statuses) <= {200, 400, 409}, statuses
        await cloud.settle()
        moving.destination = await moving.host()
        await is_there(moving)
        assert len(await moving.migrations()) == 1
