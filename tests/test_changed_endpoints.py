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
from mooring.operator_tools import RunningCloud, list_operations, own_services
from tests.cloud import URL, SimulatedCloud

pytestmark = pytest.mark.anyio
ELSEWHERE = "http://elsewhere/volume"
SERVER = "5c8f0f4e-3a5e-4b53-9a3d-0b1c7f0d2a11"


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[SimulatedCloud]:
    async with SimulatedCloud(tmp_path) as opened:
        yield opened


async def _move(cloud: SimulatedCloud, kind: str = "block-storage") -> list[str]:
    """Let the catalogue name somebody else's service; return the paths that it is asked for."""
    asked: list[str] = []

    async def other(scope: Any, receive: Any, send: Any) -> None:
        asked.append(scope["path"])
        await JSONResponse({"volumes": [], "attachments": []}, 200)(scope, receive, send)

    cloud.network.serve(ELSEWHERE, other)
    services = await cloud.ask("GET", f"/identity/v3/services?type={kind}", user="admin")
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
    asked = await _move(cloud)
    assert await volumes.volumes(None, name="x") == []
    assert asked == ["/volume/v3/volumes/detail"]


async def test_one_of_another_process_is_noticed_within_seconds(cloud: SimulatedCloud) -> None:
    login = Login(user_name="compute", password=_password(cloud), project_name="service")
    user = ServiceUser(cloud.network, f"{URL}/identity/v3", login, clock=cloud.clock)
    assert await user.url("volume") == f"{URL}/volume/v3"
    await _move(cloud)
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


def _password(cloud: SimulatedCloud, user: str = "compute") -> str:
    return json.loads((cloud.settings.state_path / access.PASSWORDS).read_text())[user]


async def _attached(cloud: SimulatedCloud) -> None:
    """Attach a volume to a server that our own compute service does not know, as a Nova would."""
    made = await cloud.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
    await cloud.settle()
    wanted = {"volume_uuid": made.key("volume")["id"], "instance_uuid": SERVER}
    body = {"attachment": {**wanted, "connector": {"host": "h1", "ip": "192.0.2.9"}}}
    by: dict[str, Any] = {
        "user": "compute",
        "headers": {"OpenStack-API-Version": "volume 3.44"},
    }
    attachment = await cloud.ask("POST", "/volume/v3/attachments", body, **by)
    path = f"/volume/v3/attachments/{attachment.key('attachment')['id']}/action"
    await cloud.ask("POST", path, {"os-complete": None}, **by)
    await cloud.settle()


async def test_the_doctor_has_nothing_against_servers_of_another_compute_service(
    cloud: SimulatedCloud,
) -> None:
    await _attached(cloud)
    assert await cloud.complaints() != []
    await _move(cloud, "compute")
    assert await cloud.complaints() == []


async def test_operations_are_asked_of_our_own_services(cloud: SimulatedCloud) -> None:
    await _move(cloud, "compute")
    await _move(cloud, "block-storage")
    login = Login(user_name="admin", password=_password(cloud, "admin"), project_name="admin")
    user = ServiceUser(cloud.network, f"{URL}/identity/v3", login, clock=cloud.clock)
    running = RunningCloud(own_services(cloud.network, URL, user))
    await list_operations(running, everything=True)
