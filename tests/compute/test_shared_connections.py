"""Servers whose volumes share a host's connection: who is told of it, and that it lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.agent.settings import PoolSettings
from mooring.agent_api.transport import Forward, Request, Response
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncIterator[ComputeCloud]:
    """A host with a pool whose volumes share its session."""
    opened = ComputeCloud(tmp_path, database=database)
    pool = PoolSettings(driver="simulated", shared_targets=True)
    opened.hosts["host1"] = replace(opened.hosts["host1"], pools=(pool,))
    async with opened:
        yield opened


async def show(cloud: ComputeCloud, server_id: str, **how: Any) -> dict[str, Any]:
    (one,) = await cloud.attachments(server_id)
    path = f"/attachments/{one['attachment_id']}"
    how = {"user": "admin", "version": "3.48", **how}
    return (await cloud.volume_api("GET", path, **how))["attachment"]


def sessions(cloud: ComputeCloud) -> list[str]:
    return cloud.agents["host1"].agent.connections.targets.sessions()


async def test_an_attachment_says_whether_its_connection_is_shared_and_with_whom(
    cloud: ComputeCloud,
) -> None:
    """Specs 001: for each attachment, if it is shared, and if so, who with."""
    first, volume_id = await cloud.make_attached()
    alone = await show(cloud, first)
    assert (alone["connection_shared"], alone["shared_with"]) == (True, [])
    second, other = await cloud.make_attached()
    shown = await show(cloud, first)
    (named,) = await cloud.attachments(second)
    assert shown["shared_with"] == [
        {"id": named["attachment_id"], "volume_id": other, "instance": second}
    ]
    volume = (await cloud.volume_api("GET", f"/volumes/{volume_id}", version="3.48"))["volume"]
    assert (volume["shared_targets"], volume["service_uuid"]) == (True, shown["service_uuid"])
    assert sessions(cloud) == [shown["service_uuid"]]
    assert await show(cloud, first, user="compute") == shown
    for how in ({"user": "member"}, {"version": "3.47"}):
        assert not {"shared_with", "connection_shared"} & {*await show(cloud, first, **how)}
    # One that waits at no host has none.
    assert (await cloud.detach(second, other)).status == 202
    await cloud.settle()
    assert (await show(cloud, first))["shared_with"] == []


async def test_an_attachment_says_of_a_plain_pool_that_its_connection_is_its_own(
    tmp_path: Path, database: str
) -> None:
    async with ComputeCloud(tmp_path, database=database) as cloud:
        first, _ = await cloud.make_attached()
        await cloud.make_attached()
        shown = await show(cloud, first)
        assert (shown["connection_shared"], shown["shared_with"]) == (False, [])


@pytest.mark.parametrize("protocol", ["nvme-of", "NVMe-oF", "nvmeof"])
async def test_an_attachment_says_where_nobody_knows_whether_its_connection_is_shared(
    protocol: str, tmp_path: Path, database: str
) -> None:
    """Of NVMe-oF the target says so, not the protocol; with whom it would be is told."""
    async with ComputeCloud(tmp_path, database=database) as cloud:
        speak(cloud, protocol)
        await cloud.look_around()
        first, volume_id = await cloud.make_attached()
        alone = await show(cloud, first)
        assert (alone["connection_shared"], alone["shared_with"]) == (None, [])
        second, other = await cloud.make_attached()
        (named,) = await cloud.attachments(second)
        shown = await show(cloud, first)
        assert (shown["connection_shared"], shown["shared_with"]) == (
            None,
            [{"id": named["attachment_id"], "volume_id": other, "instance": second}],
        )
        volume = await cloud.volume_api("GET", f"/volumes/{volume_id}", version="3.69")
        assert volume["volume"]["shared_targets"] is None


def speak(cloud: ComputeCloud, protocol: str) -> None:
    """Have hosts say that their pools speak a protocol, as the drivers of such storage would."""
    deliver = cloud.deliver_to_host

    async def pass_on(request: Request, forward: Forward) -> Response:
        response = await deliver(request, forward)
        said = b'"storage_protocol":"simulated"', f'"storage_protocol":"{protocol}"'.encode()
        return Response(response.status, response.body.replace(*said), response.headers)

    cloud.deliver_to_host = pass_on


async def test_one_server_s_detach_never_takes_another_s_connection(cloud: ComputeCloud) -> None:
    first, volume_id = await cloud.make_attached()
    second, other = await cloud.make_server(), await cloud.make_volume()
    knobs = cloud.agents["host1"].agent.connections.targets.knobs
    knobs.hold("log_out")
    assert (await cloud.detach(first, volume_id)).status == 202
    settling = asyncio.create_task(cloud.settle())
    await knobs.held("log_out")
    # It is about to log out, as the last one, while another one comes.
    attaching = asyncio.create_task(cloud.attach(second, other))
    for _ in range(200):
        await asyncio.sleep(0)
    knobs.release("log_out")
    await settling
    assert (await attaching).status == 200
    await cloud.settle()
    assert await cloud.volume_status(other) == "in-use"
    assert await cloud.disks(second) == [other]
    assert len(sessions(cloud)) == 1
    assert (await cloud.detach(second, other)).status == 202
    await cloud.settle()
    assert sessions(cloud) == []
    assert await cloud.complaints() == []


async def test_the_session_is_there_after_the_host_s_agent_was_killed(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_attached()
    await cloud.restart(hosts=True)
    assert len(sessions(cloud)) == 1
    await cloud.look_at_hosts()
    assert (await cloud.detach(server_id, volume_id)).status == 202
    await cloud.settle()
    assert sessions(cloud) == []
