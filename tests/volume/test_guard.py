from __future__ import annotations

import pytest

from mooring.errors import Unavailable
from tests.volume.cloud import SERVER, UNKNOWN, VolumeCloud

pytestmark = pytest.mark.anyio


async def test_a_user_does_not_delete_what_a_server_uses(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = await cloud.attach(volume_id)
    for user in ("member", "admin"):
        answer = await cloud.detach(attachment_id, user=user)
        assert answer.status == 409
        assert "ConflictNovaUsingAttachment" in answer.fault
        assert SERVER in answer.fault
    assert (
        await cloud.detach(attachment_id, user="member", headers={"X-Service-Token": "member"})
    ).status == 401
    assert await cloud.status(volume_id) == "in-use"
    assert (
        await cloud.detach(attachment_id, user="member", headers={"X-Service-Token": "compute"})
    ).status == 200


async def test_whatever_attachment_the_server_shows_it_is_not_deleted(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = await cloud.attach(volume_id)
    cloud.compute.listed[SERVER, volume_id] = UNKNOWN
    assert (await cloud.detach(attachment_id, user="member")).status == 409


async def test_what_no_server_lists_may_be_deleted(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = await cloud.attach(volume_id)
    cloud.compute.listed.clear()
    assert (await cloud.detach(attachment_id, user="member")).status == 200


async def test_the_guard_fails_closed(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = await cloud.attach(volume_id)
    cloud.compute.failure = Unavailable("compute does not answer")
    assert (await cloud.detach(attachment_id, user="member")).status == 503
    assert await cloud.attachments(volume_id) == {attachment_id: "attached"}
