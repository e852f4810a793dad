"""What a service has of a host stays when the host has answered since it was to be forgotten."""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mooring.agent_api.client import Agents
from mooring.agent_api.transport import Forward, Request, Response, deliver_once
from mooring.errors import Unavailable
from mooring.service import Service
from mooring.services import SERVICES
from tests.cloud import SimulatedCloud
from tests.sleeping import SlumberBeforeWrite

pytestmark = pytest.mark.anyio
TENANTS = [each for each in SERVICES if each.forget_host]


async def test_a_host_that_has_answered_since_is_not_forgotten(
    tmp_path: Path, database: str
) -> None:
    async with SimulatedCloud(tmp_path, database=database) as cloud:
        assert [each.name for each in TENANTS] == ["volume", "share", "compute"]
        cloud.clock.advance(10.0)
        await cloud.look_at_hosts()
        for each in TENANTS:
            forget, seen, store = each.forget_host, each.hosts_seen, cloud.cloud.stores[each.name]
            assert forget is not None
            assert seen is not None
            heard = (await store.read(seen))["h1"]
            cloud.clock.advance(10.0)
            await cloud.look_at_hosts()
            for former in (None, heard):
                with pytest.raises(Unavailable, match="joined anew"):
                    await forget(cloud.cloud[each], "h1", gone=False, heard=former)
            latest = (await store.read(seen))["h1"]
            assert latest > heard
            await forget(cloud.cloud[each], "h1", gone=False, heard=latest)
            assert await store.read(seen) == {}
            await forget(cloud.cloud[each], "h1", gone=False, heard=heard)


async def test_what_a_host_said_before_it_was_taken_out_makes_nothing_of_it(
    tmp_path: Path, database: str
) -> None:
    async with SimulatedCloud(tmp_path, database=database) as cloud:
        await forget(cloud)
        asleep, all_asleep, is_over = list[Request](), asyncio.Event(), asyncio.Event()

        async def fall_asleep(request: Request, forward: Forward) -> Response:
            response = await forward(request)
            asleep.append(request)
            if len(asleep) == len(TENANTS):
                all_asleep.set()
            await is_over.wait()
            return response

        cloud.deliver_to_host = fall_asleep
        looking = asyncio.create_task(cloud.look_at_hosts())
        await all_asleep.wait()
        cloud.deliver_to_host = deliver_once
        cloud.known_agents.look = partial(leave, cloud.known_agents)
        await cloud.take_over()
        await forget(cloud)
        is_over.set()
        await looking
        assert await heard_by(cloud) == []


async def test_who_slept_as_the_first_of_a_host_was_written_down_makes_nothing_of_it(
    tmp_path: Path, database: str
) -> None:
    async with SimulatedCloud(tmp_path, database=database) as cloud:
        await forget(cloud)
        slumbers = [SlumberBeforeWrite(cloud, each.name, "may_make") for each in TENANTS]
        looking = asyncio.create_task(cloud.look_at_hosts())
        for one in slumbers:
            await one.has_come.wait()
        await cloud.take_over()
        await forget(cloud)
        for one in slumbers:
            one.rouse()
        await looking
        assert await heard_by(cloud) == []


async def leave(agents: Agents) -> None:
    """See that the host is not there any more, as a process does that looks at the fleet."""
    agents.remove("h1")


async def forget(cloud: SimulatedCloud) -> None:
    """Have every service forget the host, as one does who takes it out of the cloud."""
    for each in TENANTS:
        assert each.forget_host is not None
        heard = await heard_of(cloud, each)
        await each.forget_host(cloud.cloud[each], "h1", gone=False, heard=heard)


async def heard_of(cloud: SimulatedCloud, each: Service[Any]) -> datetime | None:
    assert each.hosts_seen is not None
    return (await cloud.cloud.stores[each.name].read(each.hosts_seen)).get("h1")


async def heard_by(cloud: SimulatedCloud) -> list[str]:
    """Return the services that know the host."""
    return [each.name for each in TENANTS if await heard_of(cloud, each)]
