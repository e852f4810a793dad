"""A volume that a server is to have is waited for until it has its data, and no longer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.clients.transport import Forward, Request, Response
from mooring.neighbour import NoAnswer
from tests.cloud import SimulatedCloud
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio

IMAGE = {"name": "i", "disk_format": "raw", "container_format": "bare"}


class Wire:
    """Stands between services: counts looks at single volumes, and loses words if told to."""

    def __init__(self, *, loses_words: bool = False) -> None:
        self.loses_words, self.looks, self.words = loses_words, 0, 0

    async def __call__(self, request: Request, forward: Forward) -> Response:
        _, _, path = request.target.partition("/volume/v3/volumes/")
        self.looks += request.method == "GET" and bool(path)
        if request.body == b'{"wake":null}':
            self.words += 1
            if self.loses_words:
                raise NoAnswer("lost")
        return await forward(request)


async def boot_from_new_volume(cloud: SimulatedCloud, wire: Wire) -> str:
    """Make a server whose root disk is a new volume, while the clock stands; return its path."""
    await cloud.open()
    image = (await cloud.ask("POST", "/image/v2/images", IMAGE)).key("id")
    await cloud.ask("PUT", f"/image/v2/images/{image}/file", b"\0" * 512)
    cloud.deliver = wire
    root = {"source_type": "image", "destination_type": "volume", "uuid": image}
    disks = [{**root, "boot_index": 0, "volume_size": 1}]
    wanted = {"name": "s", "flavorRef": "42", "block_device_mapping_v2": disks}
    made = await cloud.ask("POST", "/compute/v2.1/servers", {"server": wanted})
    schedules = [engine.schedule for engine in cloud.cloud.engines.values()]
    while not all(schedule.is_quiet() for schedule in schedules):
        await asyncio.gather(*(schedule.quiet() for schedule in schedules))
    return f"/compute/v2.1/servers/{made.key('server')['id']}"


async def status(cloud: SimulatedCloud, path: str) -> str:
    """Return a server's status."""
    return (await cloud.ask("GET", path)).key("server")["status"]


async def test_a_server_is_told_when_its_new_volume_is_ready(tmp_path: Path) -> None:
    cloud, wire = SimulatedCloud(tmp_path), Wire()
    path = await boot_from_new_volume(cloud, wire)
    assert await status(cloud, path) == "ACTIVE"
    assert wire.words == 1
    # Before it is told, if it is that fast, and behind that; and before the host is given it.
    assert wire.looks <= 3
    await cloud.close()


async def test_a_server_that_is_not_told_finds_its_new_volume_by_itself(tmp_path: Path) -> None:
    cloud, wire = SimulatedCloud(tmp_path), Wire(loses_words=True)
    path = await boot_from_new_volume(cloud, wire)
    await cloud.settle()
    assert await status(cloud, path) == "ACTIVE"
    assert wire.words == 1
    await cloud.close()


async def test_only_services_wake_operations(cloud: ComputeCloud) -> None:
    path, body = "/mooring/operations/some-id/action", {"wake": None}
    found = [(await cloud.ask("POST", path, body, user=who)).status for who in ("member", "volume")]
    assert found == [403, 202]


async def begin(cloud: ComputeCloud) -> str:
    """Begin to make a server with a new volume, whose storage takes its time; return its id."""
    cloud.driver().knobs.hold("create")
    blank = {"source_type": "blank", "destination_type": "volume", "volume_size": 1}
    local = {"source_type": "image", "destination_type": "local", "boot_index": 0}
    disks: list[dict[str, Any]] = [{**local, "uuid": cloud.image_id}, blank]
    server = {"name": "s", "flavorRef": "1", "imageRef": cloud.image_id, "networks": "none"}
    body = {"server": {**server, "block_device_mapping_v2": disks}}
    answer = await cloud.ask("POST", "/servers", body)
    assert answer.status == 202, answer.text
    return answer.body["server"]["id"]


async def test_a_server_waits_until_its_new_volume_is_ready(cloud: ComputeCloud) -> None:
    server_id = await begin(cloud)
    await cloud.compute.sagas.settle(60.0)
    assert (await cloud.server(server_id))["status"] == "BUILD"
    cloud.driver().knobs.release("create")
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert len(await cloud.disks(server_id)) == 1


async def test_a_server_waits_for_a_volume_no_longer_than_volume_ready_s(
    cloud: ComputeCloud,
) -> None:
    cloud.compute.settings = replace(cloud.compute.settings, volume_ready_s=100.0)
    server_id = await begin(cloud)
    await cloud.compute.sagas.settle(80.0)
    assert (await cloud.server(server_id))["status"] == "BUILD"
    await cloud.compute.sagas.settle(100.0)
    cloud.driver().knobs.release("create")
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ERROR"
    left = await cloud.volume_api("GET", "/volumes")
    assert left["volumes"] == []
