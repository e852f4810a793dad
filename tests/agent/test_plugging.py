"""What agents and records of the release before do with disks and their connections."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent.app import open_agent
from mooring.agent.settings import AgentSettings
from mooring.agent_api.client import Agents
from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict
from tests.agent.hosts import TestHost, new_id, open_host, operation

pytestmark = pytest.mark.anyio


async def test_an_agent_of_the_release_before_is_told_to_disconnect(tmp_path: Path) -> None:
    async def know_no_attachment(request: Request, forward: Forward) -> Response:
        return await forward(replace(request, target=request.target.partition("?")[0]))

    settings = AgentSettings(name="h", state_dir=tmp_path, hypervisor="simulated")
    async with open_agent(settings) as running:
        agents = Agents()
        client = agents.in_process("h", running.app)
        host, server_id, named = TestHost(client, real=False), new_id(), operation()
        disk = await host.make_disk()
        await host.boot(server_id, [disk])
        agents.deliver = know_no_attachment
        for _ in range(2):
            await client.unplug_disk(server_id, disk.volume_id, disk.attachment_id, operation=named)
            left = await client.inventory()
            assert (left.connections, left.guests[0].disks) == ([], [])


async def test_a_connection_of_the_release_before_knows_its_guest(tmp_path: Path) -> None:
    async with open_host(tmp_path) as (host, _):
        server_id, disk = new_id(), await host.make_disk()
        await host.boot(server_id, [disk])
        file = tmp_path / "connections" / f"{disk.attachment_id}.json"
        record = json.loads(file.read_bytes())
        del record["server_ids"]
        file.write_text(json.dumps(record | {"server_id": server_id}))
        with pytest.raises(Conflict, match=f"Server {server_id} still has"):
            await host.client.disconnect(disk.attachment_id, operation=operation())
        await host.remove(server_id)
        await host.client.disconnect(disk.attachment_id, operation=operation())
        assert (await host.client.inventory()).connections == []
