"""The ways to an agent keep one contract: in this process, by Unix socket, and over mutual TLS."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring import certificates
from mooring.agent_api.client import AgentClient, Agents
from mooring.agent_api.images import ImageSpec
from mooring.agent_api.remote import Place
from mooring.agent_api.volumes import VolumeSpec
from mooring.errors import Conflict, Invalid, Unavailable
from mooring.fence.operation import Operation
from tests.agent.hosts import IMAGE_ID, new_id, open_host, operation, stream
from tests.agent.processes import agent_process
from tests.fleet.members import DAY_S, lay_member, now, start_agent

pytestmark = pytest.mark.anyio
WAYS = ["near", "unix", "tls"]


@asynccontextmanager
async def open_tls(directory: Path) -> AsyncGenerator[AgentClient]:
    """An agent behind its certificate, in a process of its own."""
    authority = certificates.make_authority(now())
    lay_member(directory, authority)
    held = certificates.hold_control_plane(authority, now(), DAY_S)
    context = certificates.client_context(authority.authority, held)
    agent = await asyncio.to_thread(start_agent, directory)
    client = Agents().remote("host-1", Place(agent.ready, "e1"), context)
    try:
        yield client
    finally:
        await client.close()
        agent.kill()


@pytest.fixture(params=WAYS)
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[AgentClient]:
    if request.param == "near":
        async with open_host(tmp_path / "host") as (host, _):
            yield host.client
    elif request.param == "unix":
        async with agent_process(tmp_path / "host", "simulated") as agent:
            yield agent.client
    else:
        async with open_tls(tmp_path / "host") as found:
            yield found


async def test_every_way_brings_answers_streams_and_refusals(client: AgentClient) -> None:
    host = await client.host()
    assert host.name == "host-1"
    assert host.roles[:2] == ["compute", "volume"]
    data = b"x" * 3_000_000
    spec = ImageSpec(disk_format="raw", size_bytes=len(data))
    image = await client.put_image(IMAGE_ID, spec, stream(data), operation=operation())
    assert image.size_bytes == len(data)
    wrong = ImageSpec(disk_format="raw", size_bytes=5)
    with pytest.raises(Invalid, match="larger than"):
        await client.put_image("other", wrong, stream(data), operation=operation())
    assert await client.show_server(new_id()) is None


async def test_every_way_knows_a_call_again_and_refuses_an_older_one(client: AgentClient) -> None:
    await client.host()
    volume_id, saga = new_id(), new_id()
    spec, named = VolumeSpec(pool="local", size_gib=1), Operation(saga, "make", 1, 9)
    made = await client.put_volume(volume_id, spec, operation=named)
    assert await client.put_volume(volume_id, spec, operation=named) == made
    with pytest.raises(Conflict):
        await client.delete_volume(volume_id, operation=Operation(new_id(), "end", 1, 3))
    client.incarnation = "another"
    with pytest.raises(Unavailable, match="not the one"):
        await client.delete_volume(volume_id, operation=operation())


async def test_many_calls_at_once_each_get_their_own_answer(client: AgentClient) -> None:
    await client.host()
    spec = VolumeSpec(pool="local", size_gib=1)
    ids = [new_id() for _ in range(30)]
    made = [client.put_volume(each, spec, operation=operation()) for each in ids]
    assert [volume.volume_id for volume in await asyncio.gather(*made)] == ids
