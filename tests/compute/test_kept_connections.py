"""A volume's connection, or its export, that is kept for good by whoever has it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.agent_api.disks import RELEASED
from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict, told_also
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio
OPERATIONS = "/compute/v2.1/mooring/operations"


async def abort(cloud: ComputeCloud) -> int:
    """Abort the one operation of compute's that goes on; return the answer's status."""
    [one] = (await cloud.ask("GET", OPERATIONS, user="admin")).body["operations"]
    path = f"{OPERATIONS}/{one['id']}/action"
    answer = await cloud.ask("POST", path, {"abort": None}, user="admin")
    await cloud.settle()
    return answer.status


async def detach_in_vain(cloud: ComputeCloud, server_id: str, volume_id: str) -> None:
    """Detach a volume that somebody keeps, and abort the clean-up: all ends without them."""
    assert (await cloud.detach(server_id, volume_id)).status == 202
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ERROR"
    assert await abort(cloud) == 202
    assert await cloud.unfinished() == []
    assert (await cloud.server(server_id))["status"] == "ACTIVE"


async def test_the_release_of_a_volume_ends_without_a_host_that_keeps_its_connection(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await cloud.make_attached()

    async def deliver(request: Request, forward: Forward) -> Response:
        path, _, query = request.target.partition("?")
        if request.method == "DELETE" and query.startswith("attachment_id="):
            # The guest lets go, and its host does not.
            await forward(replace(request, target=path))
            raise told_also(Conflict("The device is busy."), **{RELEASED: True})
        if request.method == "DELETE" and path.startswith("/connections/"):
            raise Conflict("The device is busy.")
        return await forward(request)

    cloud.deliver_to_host = deliver
    await detach_in_vain(cloud, server_id, volume_id)
    assert await cloud.volume_status(volume_id) == "available"
    assert (await cloud.disks(server_id), await cloud.connections()) == ([], [volume_id])
    [complaint] = await cloud.complaints()
    assert "connected on host host1, and no server has it" in complaint


async def test_the_release_of_a_volume_ends_without_a_storage_that_keeps_its_export(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await cloud.make_attached()
    [attachment] = await cloud.attachments(server_id)
    keeps = [True]

    async def deliver(request: Request, forward: Forward) -> Response:
        if keeps and request.method == "DELETE" and "/exports/" in request.target:
            raise Conflict("The export is in use.")
        return await forward(request)

    cloud.deliver_to_host = deliver
    await detach_in_vain(cloud, server_id, volume_id)
    assert (await cloud.disks(server_id), await cloud.connections()) == ([], [])
    [complaint] = await cloud.complaints()
    assert complaint.startswith(f"attachment {attachment['attachment_id']}:")
    assert await cloud.volume_status(volume_id) == "in-use"
    keeps.clear()
    path = f"/volume/v3/attachments/{attachment['attachment_id']}"
    assert (await cloud.ask("DELETE", path, version="3.67")).status == 200
    assert await cloud.volume_status(volume_id) == "available"
    assert await cloud.complaints() == []
