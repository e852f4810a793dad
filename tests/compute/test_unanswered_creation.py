"""What a new server asked the volume service for goes when the server goes, answered or not.

The volume service takes a request, and then nobody hears of it for a while; the server is deleted
meanwhile. No block device names what was made, so its deletion cannot know of it.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.agent_api import transport as agents
from mooring.clients.transport import Forward, Request, Response, deliver_once
from mooring.errors import Conflict, Unavailable
from mooring.neighbour import NoAnswer
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio
BLANK = {
    "source_type": "blank",
    "destination_type": "volume",
    "volume_size": 1,
    "delete_on_termination": True,
}


class Silence:
    """Compute's calls to the volume service: from the first to `path` on, none is answered."""

    def __init__(self, cloud: ComputeCloud, path: str, *, taken: bool) -> None:
        self.path, self.taken, self.fell = path, taken, False
        self.late: list[tuple[Request, Forward]] = []
        cloud.deliver = self.deliver

    async def deliver(self, request: Request, forward: Forward) -> Response:
        """Pass on what comes before, and what others ask."""
        path = request.path
        if request.headers.get("user-agent") != "mooring" or "/volume/" not in path:
            return await forward(request)
        first = not self.fell and request.method == "POST" and path.endswith(self.path)
        self.fell = self.fell or first
        if first and self.taken:
            await (await forward(request)).aclose()
        elif first:
            self.late.append((request, forward))
        if self.fell:
            raise NoAnswer("Nobody answered.")
        return await forward(request)


async def begin(cloud: ComputeCloud, *, volumes: int = 1) -> str:
    """Begin to make a server with volumes of its own; return its id a few seconds later."""
    body = {"name": "s", "flavorRef": "1", "imageRef": cloud.image_id, "networks": "none"}
    wanted = {"server": {**body, "block_device_mapping_v2": [BLANK] * volumes}}
    made = await cloud.ask("POST", "/servers", wanted)
    for _ in range(5):
        await cloud.volume.sagas.settle(1.0)
        await cloud.compute.sagas.settle(1.0)
    return made.body["server"]["id"]


async def left_in_volumes(cloud: ComputeCloud) -> tuple[list[Any], list[Any]]:
    """Return the volumes and attachments that there are, by id."""
    volumes = await cloud.volume_api("GET", "/volumes")
    attachments = await cloud.volume_api("GET", "/attachments")
    return volumes["volumes"], attachments["attachments"]


@pytest.mark.parametrize("path", ["/volumes", "/attachments"])
@pytest.mark.parametrize("taken", [True, False], ids=["unanswered", "late"])
async def test_nothing_stays_behind_that_was_never_answered(
    cloud: ComputeCloud, path: str, *, taken: bool
) -> None:
    silence = Silence(cloud, path, taken=taken)
    server_id = await begin(cloud)
    assert silence.fell
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.compute.sagas.settle(120.0)
    cloud.deliver = deliver_once
    await cloud.settle()
    for request, forward in silence.late:
        await (await forward(request)).aclose()
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "gone"
    assert await left_in_volumes(cloud) == ([], [])


async def test_a_volume_that_is_still_being_made_goes_with_its_server(cloud: ComputeCloud) -> None:
    async def deliver(request: agents.Request, forward: agents.Forward) -> agents.Response:
        if request.target.startswith("/volumes/"):
            raise Unavailable("The host gave no answer.")
        return await forward(request)

    cloud.deliver_to_host = deliver
    server_id = await begin(cloud)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.compute.sagas.settle(120.0)
    [volume] = (await left_in_volumes(cloud))[0]
    assert await cloud.volume_status(volume["id"]) == "creating"
    cloud.deliver_to_host = agents.deliver_once
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "gone"
    assert await left_in_volumes(cloud) == ([], [])


async def test_a_volume_that_is_made_just_after_its_deletion_was_refused_goes_too(
    cloud: ComputeCloud,
) -> None:
    refused: list[str] = []

    async def deliver(request: Request, forward: Forward) -> Response:
        if request.method != "DELETE" or "/volumes/" not in request.path or refused:
            return await forward(request)
        # As it is when asked a moment before the volume was made.
        refused.append(request.path)
        fault = {"badRequest": {"code": 400, "message": "Invalid volume: it is creating."}}
        content = {"content-type": "application/json"}
        return Response(400, msgspec.json.encode(fault), content)

    cloud.deliver = deliver
    cloud.hypervisor().knobs.fail("power_on", Conflict("The hypervisor says no."))
    server_id = await begin(cloud, volumes=2)
    await cloud.settle()
    assert refused
    assert (await cloud.server(server_id))["status"] == "ERROR"
    assert await left_in_volumes(cloud) == ([], [])


async def test_a_volume_that_somebody_offers_before_its_server_has_it_is_left(
    cloud: ComputeCloud,
) -> None:
    offered: list[str] = []

    async def deliver(request: Request, forward: Forward) -> Response:
        if not offered and request.method == "POST" and request.path.endswith("/v3/attachments"):
            # In the moment in which it is made, and not reserved yet.
            [made] = (await cloud.volume_api("GET", "/volumes"))["volumes"]
            offered.append(made["id"])
            body = {"transfer": {"volume_id": made["id"]}}
            await cloud.volume_api("POST", "/volume-transfers", body)
        return await forward(request)

    cloud.deliver = deliver
    server_id = await begin(cloud)
    await cloud.settle()
    assert await cloud.unfinished() == []
    assert (await cloud.server(server_id))["status"] == "ERROR"
    assert await cloud.volume_status(offered[0]) == "awaiting-transfer"
