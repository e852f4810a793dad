"""A move whose destination cannot take the server goes to another host and leaves nothing there."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent_api import wire
from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict
from tests.compute.cloud import ComputeCloud
from tests.compute.moving import LIVE, Moving, server_that_moves
from tests.compute.verifying import ask, is_to_be_verified, show

pytestmark = pytest.mark.anyio
_HOSTS = ("host1", "host2", "host3")
_WAYS = ("migrate", LIVE)
_EVENTS = {"migrate": "compute_prep_resize", LIVE: "compute_live_migration"}


@pytest.fixture
async def moving(tmp_path: Path) -> AsyncGenerator[Moving]:
    async with ComputeCloud(tmp_path, hosts=_HOSTS) as cloud:
        yield await server_that_moves(cloud)


@pytest.fixture(params=_WAYS)
def way(request: pytest.FixtureRequest) -> str:
    """Off, or while it runs."""
    return request.param


async def _move(moving: Moving, way: str, host: str | None = None) -> None:
    await moving.cloud.look_at_hosts()
    value = {"host": host, **({"block_migration": False} if way == LIVE else {})}
    assert await ask(moving, way, value, user="admin") == 202


def _refuse(moving: Moving, *hosts: str) -> list[str]:
    """Let hosts connect no volume; return who was asked to, in their order."""
    asked: list[str] = []

    async def answer(request: Request, forward: Forward) -> Response:
        host = request.headers["host"]
        if request.method != "PUT" or not request.target.startswith("/connections/"):
            return await forward(request)
        asked.append(host)
        if host not in hosts:
            return await forward(request)
        body = wire.body_of(Conflict(f"{host} does not see the storage."))
        return Response(409, body, {"content-type": "application/json"})

    moving.cloud.deliver_to_host = answer
    return asked


async def _destination(moving: Moving) -> str:
    """Return where the server would go, having sent it there and back."""
    await _move(moving, "migrate")
    host = await moving.host()
    assert await ask(moving, "revertResize") == 202
    return host


async def _events(moving: Moving) -> list[tuple[str, str, str | None]]:
    """Return name, result and details of each event of the newest action, oldest first."""
    path = f"/servers/{moving.server_id}/os-instance-actions"
    listed = (await moving.cloud.ask("GET", path, user="admin")).body["instanceActions"]
    shown = await moving.cloud.ask("GET", f"{path}/{listed[0]['request_id']}", user="admin")
    events = shown.body["instanceAction"]["events"]
    return [(one["event"], one["result"], one["details"]) for one in events[::-1]]


async def test_another_host_takes_it_and_the_first_one_has_nothing(
    moving: Moving, way: str
) -> None:
    first = await _destination(moving)
    other = next(host for host in _HOSTS if host not in {first, moving.source})
    asked = _refuse(moving, first)
    await _move(moving, way)
    assert asked == [first, other, other]
    assert await moving.cloud.connections(first) == []
    moved = replace(moving, destination=other)
    if way == LIVE:
        assert (await show(moving))["status"] == "ACTIVE"
        assert await moved.states() == ["absent", "running"]
        assert (await moved.connected(), await moved.attachments()) == ([0, 2], 2)
        assert await moved.claims() == [set(), {moving.server_id}]
    else:
        await is_to_be_verified(moved)
    assert (await replace(moving, destination=first).claims())[1] == set()
    [newest, *_] = await moving.migrations(instance_uuid=moving.server_id)
    assert (newest["source_compute"], newest["dest_compute"]) == (moving.source, other)
    refused = f"{first} does not see the storage."
    events = await _events(moving)
    assert events[:2] == [(_EVENTS[way], "Error", refused), (_EVENTS[way], "Success", None)]
    assert (await moving.cloud.actions(moving.server_id))[-1][1] is None


async def test_one_that_was_asked_for_is_the_only_one_tried(moving: Moving, way: str) -> None:
    asked = _refuse(moving, moving.destination)
    await _move(moving, way, moving.destination)
    assert asked == [moving.destination]
    await moving.stays_whole()
    refused = f"{moving.destination} does not see the storage."
    assert await _events(moving) == [(_EVENTS[way], "Error", refused)]


async def test_a_server_that_no_other_host_can_take_stays_and_says_why(
    moving: Moving, way: str
) -> None:
    others = {host for host in _HOSTS if host != moving.source}
    asked = _refuse(moving, *others)
    await _move(moving, way)
    assert (len(asked), set(asked)) == (2, others)
    await moving.stays_whole()
    assert await moving.status() == "error"
    last = asked[-1]
    assert (await _events(moving))[-1][2] == (
        f"On {last} it failed: {last} does not see the storage. "
        "No valid host was found. 3 hosts: 2 tried already, 1 where the server is."
    )


async def test_what_is_not_the_host_s_fault_is_not_tried_elsewhere(moving: Moving) -> None:
    moving.cloud.driver().knobs.fail("export", Conflict("The storage is full."), times=9)
    asked = _refuse(moving)
    await _move(moving, "migrate")
    assert asked == []
    await moving.stays_whole()


async def test_abort_ends_the_trying(moving: Moving) -> None:
    first = await _destination(moving)
    asked = _refuse(moving, first)
    deliver = moving.cloud.deliver_to_host

    async def abort(request: Request, forward: Forward) -> Response:
        if request.method == "PUT" and request.target.startswith("/connections/") and not asked:
            [move] = await moving.under_way()
            await moving.ask_of("DELETE", move["id"])
        return await deliver(request, forward)

    moving.cloud.deliver_to_host = abort
    await _move(moving, LIVE)
    await moving.stays_whole()
    assert await moving.status() == "cancelled"
