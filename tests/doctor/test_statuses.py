"""Volumes whose status contradicts their attachments are found, and how to follow the advice."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tests.cloud import SimulatedCloud
from tests.doctor.test_users_attachments import make_volume

pytestmark = pytest.mark.anyio


async def act(cloud: SimulatedCloud, volume_id: str, action: str, body: Any) -> None:
    path = f"/volume/v3/volumes/{volume_id}/action"
    answer = await cloud.ask("POST", path, {action: body}, user="admin", version="3.44")
    assert answer.status == 202, answer.text
    await cloud.settle()


async def test_a_used_volume_that_is_said_to_be_free_is_found(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    await act(cloud, volume_id, "os-reserve", None)
    attach = {"instance_uuid": str(uuid.uuid4()), "mountpoint": "/dev/vdb"}
    await act(cloud, volume_id, "os-attach", attach)
    assert await cloud.complaints() == []
    await act(cloud, volume_id, "os-reset_status", {"status": "available"})
    assert await cloud.complaints() == [
        f"volume {volume_id}: available, though an attachment of it is attached"
    ]
    used = {"status": "in-use", "attach_status": "attached"}
    await act(cloud, volume_id, "os-reset_status", used)
    assert await cloud.complaints() == []


async def test_a_free_volume_that_is_said_to_be_attached_is_found(cloud: SimulatedCloud) -> None:
    volume_id = await make_volume(cloud)
    await act(cloud, volume_id, "os-reset_status", {"attach_status": "attached"})
    assert await cloud.complaints() == [
        f"volume {volume_id}: available and attached, and no attachment of it is"
    ]
    free = {"status": "available", "attach_status": "detached"}
    await act(cloud, volume_id, "os-reset_status", free)
    assert await cloud.complaints() == []
