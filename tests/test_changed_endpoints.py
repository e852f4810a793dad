"""A changed endpoint is noticed at the next call."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import JSONResponse

from mooring import access
from mooring.clients.identity import Login, ServiceUser
from mooring.compute.app import SERVICE as COMPUTE
from mooring.errors import MooringError
from tests.cloud import URL, SimulatedCloud

pytestmark = pytest.mark.anyio
ELSEWHERE = "http://elsewhere/volume"


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path) as opened:
        yield opened


async def _move_volumes(cloud: SimulatedCloud) -> list[str]:
    """Let the catalogue name another volume service; return the paths that it is asked for."""
    asked: list[str] = []

    async def other(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        await JSONResponse({"volumes": [], "attachments": []})(scope, receive, send)

    cloud.network.serve(ELSEWHERE, other)
    services = await cloud.ask("GET", "/identity/v3/services?type=block-storage", user="admin")
    service_id = services.key("services")[0]["id"]
    path = f"/identity/v3/endpoints?service_id={service_id}"
    for endpoint in (await cloud.ask("GET", path, user="admin")).key("endpoints"):
        body = {"endpoint": {"url": f"{ELSEWHERE}/v3"}}
        one = f"/identity/v3/endpoints/{endpoint['id']}"
        assert (await cloud.ask("PATCH", one, body, user="admin")).status == 200
    return asked


async def test_a_service_goes_to_the_new_endpoint_at_its_next_call(cloud: SimulatedCloud) -> None:
    volumes = cloud.cloud[COMPUTE].volumes
    assert await volumes.volumes(None, name="x") == []
    asked = await _move_volumes(cloud)
    assert await volumes.volumes(None, name="x") == []
    assert asked == ["/volume/v3/volumes/detail"]


async def test_one_of_another_process_is_noticed_within_seconds(cloud: SimulatedCloud) -> None:
    login = Login(user_name="compute", password=_password(cloud), project_name="service")
    user = ServiceUser(cloud.network, f"{URL}/identity/v3", login, clock=cloud.clock)
    assert await user.url("volume") == f"{URL}/volume/v3"
    await _move_volumes(cloud)
    cloud.clock.advance(6.0)
    assert await user.url("volume") == f"{ELSEWHERE}/v3"


async def test_while_identity_is_away_the_known_endpoints_stay(cloud: SimulatedCloud) -> None:
    login = Login(user_name="compute", password=_password(cloud), project_name="service")
    user = ServiceUser(cloud.network, f"{URL}/identity/v3", login, clock=cloud.clock)
    assert await user.url("volume") == f"{URL}/volume/v3"

    async def away(scope: Any, receive: Any, send: Any) -> None:
        await JSONResponse({}, status_code=503)(scope, receive, send)

    cloud.network.serve(f"{URL}/identity", away)
    cloud.clock.advance(6.0)
    assert await user.url("volume") == f"{URL}/volume/v3"
    cloud.clock.advance(3600.0)
    with pytest.raises(MooringError):
        await user.url("volume")


def _password(cloud: SimulatedCloud) -> str:
    return json.loads((cloud.settings.state_path / access.PASSWORDS).read_text())["compute"]
