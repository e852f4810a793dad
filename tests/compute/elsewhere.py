"""Hosts that refuse a server which is to move to them, and what its action says of that."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection

from mooring.agent_api import wire
from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict
from tests.compute.cloud import ComputeCloud
from tests.compute.moving import LIVE, Moving
from tests.compute.verifying import ask

CONNECTIONS, MOUNTS = "/connections/", "/servers/[^/]+/shares/"
EVENTS = {"migrate": "compute_prep_resize", LIVE: "compute_live_migration"}


async def move(moving: Moving, way: str, host: str | None = None) -> None:
    """Move the server while it is off or runs, to any host unless one is named."""
    await moving.cloud.look_at_hosts()
    value = {"host": host, **({"block_migration": False} if way == LIVE else {})}
    assert await ask(moving, way, value, user="admin") == 202


def refuse(
    cloud: ComputeCloud,
    hosts: Collection[str],
    target: str = CONNECTIONS,
    *,
    one: bool = False,
    then: Callable[[str], Awaitable[None]] | None = None,
) -> list[str]:
    """Let hosts refuse to PUT what matches `target`; return who was asked, in their order.

    Only `one` of them does then, the first that is asked. `then` is awaited before each refusal.
    """
    asked: list[str] = []
    deliver, unwilling = cloud.deliver_to_host, {*hosts}

    async def answer(request: Request, forward: Forward) -> Response:
        host = request.headers["host"]
        if request.method != "PUT" or not re.match(target, request.target):
            return await deliver(request, forward)
        asked.append(host)
        if host not in unwilling:
            return await deliver(request, forward)
        if one:
            unwilling.intersection_update({host})
        if then is not None:
            await then(host)
        body = wire.body_of(Conflict(f"{host} does not see the storage."))
        return Response(409, body, {"content-type": "application/json"})

    cloud.deliver_to_host = answer
    return asked


async def events(cloud: ComputeCloud, server_id: str) -> list[tuple[str, str, str | None]]:
    """Return name, result and details of each event of the newest action, oldest first."""
    path = f"/servers/{server_id}/os-instance-actions"
    listed = (await cloud.ask("GET", path, user="admin")).body["instanceActions"]
    shown = await cloud.ask("GET", f"{path}/{listed[0]['request_id']}", user="admin")
    found = shown.body["instanceAction"]["events"]
    return [(one["event"], one["result"], one["details"]) for one in found[::-1]]
