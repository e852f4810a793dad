"""What operators are told of a host that does not answer: by command, by `/healthz`, by name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mooring import access, operator_tools
from mooring.agent_api.transport import Forward, Request, Response
from mooring.clients.identity import ServiceUser
from mooring.errors import Unavailable
from mooring.operator_tools import RunningCloud
from tests.cloud import URL, SimulatedCloud

pytestmark = pytest.mark.anyio
SILENT_S = 40.0
VOLUMES = "/volume/v3/volumes"


class Ice:
    """The way to the host: it loses one call, and holds all others until it is `thawed`."""

    def __init__(self) -> None:
        self.has_lost, self.holds, self.thawed = False, asyncio.Event(), asyncio.Event()

    async def deliver(self, request: Request, forward: Forward) -> Response:
        if not self.has_lost:
            self.has_lost = True
            raise Unavailable("The agent gave no answer.")
        self.holds.set()
        await self.thawed.wait()
        return await forward(request)


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path) as opened:
        yield opened


async def healthz(cloud: SimulatedCloud) -> Any:
    transport = httpx2.ASGITransport(app=cloud.cloud.app)
    async with httpx2.AsyncClient(transport=transport, base_url=URL) as client:
        answer = await client.get("/healthz")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def operations(cloud: SimulatedCloud, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what `mooring operations list` prints."""
    _, login = access.read_login(cloud.settings.state_path)
    user = ServiceUser(cloud.network, f"{URL}/identity/v3", login, clock=cloud.clock)
    sessions = operator_tools.own_services(cloud.network, URL, user)
    capsys.readouterr()
    await operator_tools.list_operations(RunningCloud(sessions), everything=False)
    return capsys.readouterr().out


async def test_the_command_and_healthz_name_a_silent_host_until_it_answers(
    cloud: SimulatedCloud, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (await healthz(cloud))["silent_hosts"] == {}
    ice = Ice()
    cloud.deliver_to_host = ice.deliver
    with pytest.raises(Unavailable):
        await cloud.known_agents["h1"].host()
    since = cloud.clock.now()
    made = await cloud.ask("POST", VOLUMES, {"volume": {"size": 1}})
    assert made.status == 202
    await ice.holds.wait()
    cloud.clock.advance(SILENT_S)
    # Another release has to end what this one does not know; a silent host is no such thing.
    found = await healthz(cloud)
    assert (found["status"], found["silent_hosts"]) == ("ok", {"h1": f"{since:%FT%TZ}"})
    said = await operations(cloud, capsys)
    first, second, *rows = said.splitlines()
    assert first == "Host h1 has not answered for 40 s."
    assert second.startswith("What waits for a silent host goes on when it answers.")
    (row,) = [one for one in rows if "volume.create_volume" in one]
    assert row.endswith("Host h1 has not answered for 40 s.")
    operation_id = row.partition(" ")[0]
    for command in (
        "service set --down h1 nova-compute",
        "volume set --state",
        f"operations abort {operation_id}",
    ):
        assert any(one.startswith("- ") and command in one for one in rows)
    ice.thawed.set()
    await cloud.settle()
    assert (await healthz(cloud))["silent_hosts"] == {}
    assert await operations(cloud, capsys) == "Nothing is going on.\n"
    shown = await cloud.ask("GET", f"{VOLUMES}/{made.key('volume')['id']}")
    assert shown.key("volume")["status"] == "available"


async def test_a_silent_host_that_nothing_waits_for_is_no_heading_of_the_list(
    cloud: SimulatedCloud, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud.deliver_to_host = Ice().deliver
    with pytest.raises(Unavailable):
        await cloud.known_agents["h1"].host()
    assert await operations(cloud, capsys) == "Nothing is going on.\n"
