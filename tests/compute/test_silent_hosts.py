"""One of two hosts falls silent: whatever the other one does goes on, and everybody is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.agent_api.client import AgentClient
from mooring.agent_api.transport import Forward, InProcess, Request, Response
from mooring.errors import Unavailable
from mooring.limits import HOST_CALLS_AT_ONCE
from mooring.saga import operations
from mooring.saga.operations import Summary
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio
MORE_THAN_SLOTS = 20


class Cold:
    """The way to host2: it loses calls, or holds them until it is `thawed`."""

    def __init__(self, cloud: ComputeCloud) -> None:
        self.loses = False
        self.is_full, self.thawed = asyncio.Event(), asyncio.Event()
        self._held = 0
        wire = InProcess(cloud.agents["host2"].app, self._deliver)
        cloud.known_agents.add(AgentClient("host2", wire))

    async def _deliver(self, request: Request, forward: Forward) -> Response:
        if self.loses:
            raise Unavailable("The agent gave no answer.")
        self._held += 1
        if self._held == HOST_CALLS_AT_ONCE:
            self.is_full.set()
        await self.thawed.wait()
        return await forward(request)


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[ComputeCloud]:
    """Two hosts, of which the first alone has storage."""
    async with ComputeCloud(
        tmp_path, roles={"host1": ("compute", "volume"), "host2": ("compute",)}
    ) as opened:
        yield opened


async def make_server_on(cloud: ComputeCloud, host: str) -> str:
    wanted = {"name": "s", "flavorRef": "1", "imageRef": cloud.image_id, "networks": "none"}
    answer = await cloud.ask("POST", "/servers", {"server": {**wanted, "host": host}}, user="admin")
    assert answer.status == 202, answer.text
    await cloud.settle()
    return answer.body["server"]["id"]


async def make_volumes(cloud: ComputeCloud, count: int) -> list[str]:
    quota = {"quota_set": {"volumes": count}}
    path = f"/os-quota-sets/{cloud.project_id}"
    await cloud.volume_api("PUT", path, quota, user="admin")
    made = [
        await cloud.volume_api("POST", "/volumes", {"volume": {"size": 1}}) for _ in range(count)
    ]
    await cloud.settle()
    return [one["volume"]["id"] for one in made]


async def begin(cloud: ComputeCloud, server_id: str, volume_id: str) -> str:
    """Begin to attach; return the operation's id."""
    answer = await cloud.attach(server_id, volume_id)
    assert answer.status == 200, answer.text
    (begun,) = [one for one in await going_on(cloud) if f"volume:{volume_id}" in one.locks]
    return begun.id


async def going_on(cloud: ComputeCloud) -> list[Summary]:
    engine = cloud.compute.sagas
    return await cloud.stores["compute"].read(lambda tx: operations.list_operations(tx, engine))


async def message_of(cloud: ComputeCloud, server_id: str, who: str) -> str:
    path = f"/servers/{server_id}/os-instance-actions"
    answer = await cloud.ask("GET", path, user=who)
    return answer.body["instanceActions"][0]["message"]


async def test_attaches_on_a_frozen_host_keep_none_on_another_waiting(pair: ComputeCloud) -> None:
    frozen, healthy = [await make_server_on(pair, host) for host in ("host2", "host1")]
    *volumes, own = await make_volumes(pair, MORE_THAN_SLOTS + 1)
    cold = Cold(pair)
    for volume_id in volumes:
        await begin(pair, frozen, volume_id)
    await cold.is_full.wait()
    await pair.compute.sagas.ended(await begin(pair, healthy, own))
    assert len(await going_on(pair)) == MORE_THAN_SLOTS
    cold.thawed.set()
    await pair.settle()
    assert sorted(await pair.disks(frozen, "host2")) == sorted(volumes)
    assert await pair.disks(healthy) == [own]


async def test_operations_and_actions_say_since_when_a_host_is_silent(pair: ComputeCloud) -> None:
    server_id = await make_server_on(pair, "host2")
    first, second = await make_volumes(pair, 2)
    cold = Cold(pair)
    cold.loses = True
    operation = await begin(pair, server_id, first)
    await pair.compute.sagas.schedule.quiet()
    cold.loses = False
    late = await begin(pair, server_id, second)
    while not all("host2" in one.waits for one in await going_on(pair)):
        pair.clock.advance(1)
        await asyncio.sleep(0)
    began = pair.known_agents.doors.silent()[0].since
    assert began is not None
    pair.clock.advance(40 - (pair.clock.now() - began).total_seconds())
    said = "Host host2 has not answered for 40 s."
    assert {one.id: one.waits for one in await going_on(pair)} == {operation: said, late: said}
    goes_on = "The operation goes on when it answers."
    assert await message_of(pair, server_id, "admin") == (
        f"{said} {goes_on} If the host is gone, switch it off and force it down (openstack compute "
        f"service set --down host2 nova-compute), or abort the operation (mooring operations abort "
        f"{late})."
    )
    assert await message_of(pair, server_id, "member") == (
        f"The host has not answered for 40 s. {goes_on} If that takes too long, ask an "
        f"administrator to force the host down or to abort operation {late}."
    )
    cold.thawed.set()
    await pair.settle()
    assert await message_of(pair, server_id, "admin") is None
    assert sorted(await pair.disks(server_id, "host2")) == sorted((first, second))


async def test_no_abort_is_advised_for_a_stop_that_is_past_its_pivot(pair: ComputeCloud) -> None:
    server_id = await make_server_on(pair, "host2")
    cold = Cold(pair)
    assert await pair.act(server_id, "os-stop") == 202
    while not any(one.waits for one in await going_on(pair)):
        pair.clock.advance(1)
        await asyncio.sleep(0)
    [stop] = await going_on(pair)
    assert not stop.may_abort
    said = await message_of(pair, server_id, "admin")
    assert said.endswith("(openstack compute service set --down host2 nova-compute).")
    said = await message_of(pair, server_id, "member")
    assert said.endswith("ask an administrator to force the host down.")
    cold.thawed.set()
    await pair.settle()
