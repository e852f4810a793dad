"""What is told of a server after a move: where and how it is, and what to do."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from mooring.agent_api import wire
from mooring.agent_api.transport import Forward, Request, Response
from mooring.compute.hosts.loops import heal_servers
from mooring.errors import Conflict, Unavailable
from tests.compute.cloud import ComputeCloud
from tests.compute.moving import Moving, moving_server
from tests.compute.verifying import ask, is_confirmed, show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
COMES, GOES = "It will not come.", "It will not go."


@pytest.fixture
async def moving(keeper: Keeper, database: str) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, database=database) as made:
        yield made


class Hindered:
    """Hosts that do not let go of a volume, and that take one more when `takes_all` is false."""

    def __init__(self, cloud: ComputeCloud, *, silent: bool, takes_all: bool) -> None:
        self._deliver, self._silent, self._takes_all = cloud.deliver_to_host, silent, takes_all
        self._taken: set[str] = set()
        cloud.deliver_to_host = self

    async def __call__(self, request: Request, forward: Forward) -> Response:
        """Pass a call on, or refuse it."""
        if not request.target.startswith("/connections/"):
            return await self._deliver(request, forward)
        if request.method == "DELETE" and self._silent:
            raise Unavailable(GOES)
        if request.method == "DELETE":
            return _refuse(GOES)
        self._taken |= {request.target} if request.method == "PUT" else set()
        if len(self._taken) > 1 and not self._takes_all:
            return _refuse(COMES)
        return await self._deliver(request, forward)


def _refuse(why: str) -> Response:
    return Response(409, wire.body_of(Conflict(why)), {"content-type": "application/json"})


@pytest.mark.parametrize("silent", [True, False], ids=["silent", "refuses"])
@pytest.mark.parametrize(
    ("action", "takes_all"),
    [
        ("migrate", False),
        ("live", True),
        ("live", False),
        ("confirmResize", True),
        ("revertResize", True),
    ],
)
async def test_a_server_in_error_says_where_it_is_and_whom_to_see_to(
    moving: Moving, action: str, takes_all: bool, silent: bool
) -> None:
    is_verified = action in {"confirmResize", "revertResize"}
    if is_verified:
        assert await ask(moving, "migrate", user="admin") == 202
    deliver = moving.cloud.deliver_to_host
    Hindered(moving.cloud, silent=silent, takes_all=takes_all)
    if action == "live":
        await moving.move()
    else:
        assert await ask(moving, action, user="admin") in {202, 204}
    shown, kept = await show(moving), await moving.host()
    other = next(host for host in moving.cloud.hosts if host != kept)
    told = shown["fault"]["message"]
    assert shown["status"] == "ERROR"
    assert told.startswith(f"The server is on host {kept}; host {other} may still have its volumes")
    assert "openstack server set --state active" in told
    assert GOES in shown["fault"]["details"]
    assert takes_all or COMES in shown["fault"]["details"]
    moving.cloud.deliver_to_host = deliver
    assert await ask(moving, "os-resetState", {"state": "active"}, user="admin") == 202
    assert (await show(moving))["status"] == "ACTIVE"
    assert (await moving.cloud.ask("DELETE", f"/servers/{moving.server_id}")).status == 204
    await moving.cloud.settle()
    assert (await moving.attachments(), await moving.connected()) == (0, [0, 0])
    assert await moving.cloud.complaints() == []


async def test_one_that_shut_itself_down_before_it_is_confirmed_is_stopped(moving: Moving) -> None:
    assert await ask(moving, "migrate", user="admin") == 202
    await moving.cloud.hypervisor(moving.destination).power_off(moving.server_id, 0)
    await heal_servers.heal_once(moving.cloud.compute)
    shown = await show(moving)
    assert (shown["status"], shown["OS-EXT-STS:power_state"]) == ("VERIFY_RESIZE", 4)
    assert await ask(moving, "confirmResize") == 204
    assert (await show(moving))["status"] == "SHUTOFF"
    await is_confirmed(moving, "stopped")
    assert await moving.cloud.complaints() == []
