"""Attachments as other services list them, page by page, while some of them go."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from mooring.clients.transport import Forward, Request, Response
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio


async def test_what_goes_between_two_pages_is_in_no_list(tmp_path: Path) -> None:
    async with ComputeCloud(tmp_path) as cloud:
        volumes = cloud.compute.volumes
        volume_id = await cloud.make_volume()
        reserved = await volumes.create_attachment(None, volume_id, str(uuid4()))
        asked: list[str] = []

        async def deliver(request: Request, forward: Forward) -> Response:
            if request.method == "GET" and "/attachments" in request.path:
                asked.append(request.path)
                if len(asked) == 2:
                    cloud.deliver = deliver_plainly
                    await volumes.delete_attachment(None, reserved.id)
            return await forward(request)

        async def deliver_plainly(request: Request, forward: Forward) -> Response:
            return await forward(request)

        cloud.deliver = deliver
        assert await volumes.attachments(None, volume_id=volume_id) == []
        assert len(asked) == 2
