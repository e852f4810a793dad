"""A server that a reset takes out of a move, where who has its volume elsewhere keeps that."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict, Unavailable
from tests.compute.moving import Moving, moving_server
from tests.kept import Keeper

pytestmark = pytest.mark.anyio


@pytest.fixture
async def moving(keeper: Keeper) -> AsyncGenerator[Moving]:
    async with moving_server(keeper) as made:
        yield made


@pytest.mark.parametrize("kept", ["/connections/", "/exports/"])
async def test_its_reset_ends_and_its_volumes_go_from_there_when_they_leave_it(
    moving: Moving, kept: str
) -> None:
    cloud, server_id = moving.cloud, moving.server_id
    refused, silent = [kept], [f"/servers/{server_id}/power"]

    async def deliver(request: Request, forward: Forward) -> Response:
        if request.target in silent:
            raise Unavailable("The agent gave no answer.")
        if request.method == "DELETE" and any(word in request.target for word in refused):
            raise Conflict("It is busy.")
        return await forward(request)

    cloud.deliver_to_host = deliver
    await cloud.look_at_hosts()
    assert await cloud.act(server_id, "migrate", None, user="admin") == 202
    await cloud.compute.sagas.settle(10.0)
    state = {"state": "active"}
    assert await cloud.act(server_id, "os-resetState", state, user="admin") == 202
    silent.clear()
    await cloud.settle()
    assert await cloud.unfinished() == []
    assert (await moving.host(), await moving.states()) == (moving.source, ["running", "absent"])
    assert await cloud.complaints() == []
    refused.clear()
    await cloud.look_at_hosts()
    root, other = moving.volumes
    assert (await cloud.detach(server_id, other)).status == 202
    await cloud.settle()
    assert await cloud.volume_status(other) == "available"
    assert await moving.connected() == [1, int(kept == "/connections/")]
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    assert await cloud.volume_status(root) == "available"
    assert (await moving.connected(), await moving.attachments()) == ([0, 0], 0)
    assert await cloud.complaints() == []
