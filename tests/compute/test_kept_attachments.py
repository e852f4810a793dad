"""An attachment that the storage does not let go while its volume's file changes its name."""

from __future__ import annotations

import pytest

from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio


async def test_a_snapshot_ends_whose_attachment_somebody_could_not_delete_meanwhile(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await cloud.make_attached()
    [attachment] = await cloud.attachments(server_id)
    path = f"/volumes/{volume_id}/exports/{attachment['attachment_id']}"
    refused: list[int] = []

    async def deliver(request: Request, forward: Forward) -> Response:
        if request.method == "PUT" and request.target == path and not refused:
            # The snapshot is about to name its file to whoever connects the volume.
            cloud.driver().knobs.fail("unexport", Conflict("It is in use."))
            url = f"/volume/v3/attachments/{attachment['attachment_id']}"
            refused.append(0)
            refused[0] = (await cloud.ask("DELETE", url, user="compute", version="3.67")).status
        return await forward(request)

    cloud.deliver_to_host = deliver
    body = {"snapshot": {"volume_id": volume_id, "force": True}}
    made = (await cloud.volume_api("POST", "/snapshots", body))["snapshot"]
    await cloud.settle()
    assert refused == [409]
    assert await cloud.unfinished() == []
    shown = (await cloud.volume_api("GET", f"/snapshots/{made['id']}"))["snapshot"]
    assert shown["status"] == "available"
    assert await cloud.volume_status(volume_id) == "in-use"
    assert await cloud.complaints() == []
