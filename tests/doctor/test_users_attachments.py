"""Attachments that users make of their own volumes are no faults, whatever server they name."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from tests.cloud import SimulatedCloud

pytestmark = pytest.mark.anyio


async def make_volume(cloud: SimulatedCloud) -> str:
    made = await cloud.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
    await cloud.settle()
    return str(made.key("volume")["id"])


async def test_what_users_attach_by_themselves_is_theirs(tmp_path: Path) -> None:
    async with SimulatedCloud(tmp_path) as cloud:
        volumes = [await make_volume(cloud) for _ in range(2)]

        async def do(method: str, path: str, body: Any) -> Any:
            answer = await cloud.ask(method, f"/volume/v3{path}", body, version="3.44")
            assert answer.status < 300, (path, answer.text)
            await cloud.settle()
            return answer

        server = str(uuid.uuid4())
        wanted = {"attachment": {"volume_uuid": volumes[0], "instance_uuid": server}}
        made = (await do("POST", "/attachments", wanted)).key("attachment")["id"]
        assert await cloud.complaints() == []
        connected = {"attachment": {"connector": {"host": "vm-1"}}}
        await do("PUT", f"/attachments/{made}", connected)
        await do("POST", f"/attachments/{made}/action", {"os-complete": None})
        await do("POST", f"/volumes/{volumes[1]}/action", {"os-reserve": None})
        attach = {"os-attach": {"instance_uuid": server, "mountpoint": "/dev/vdb"}}
        await do("POST", f"/volumes/{volumes[1]}/action", attach)
        listed = (await cloud.ask("GET", "/volume/v3/volumes/detail")).key("volumes")
        assert {volume["status"] for volume in listed} == {"in-use"}
        assert await cloud.complaints() == []
