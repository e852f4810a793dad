from __future__ import annotations

import pytest

from mooring.fence.operation import HEADER
from tests.volume.cloud import SERVER, VolumeCloud

pytestmark = pytest.mark.anyio


SAGA = "12345678-1234-4234-8234-123456789abc"


def under(step: str = "reserve", generation: int = 5) -> dict[str, str]:
    """Return the header of a request under a step of the operation."""
    return {HEADER: f"{SAGA}.{step};1;{generation}"}


async def test_the_same_operation_reserves_once(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    body = {"attachment": {"volume_uuid": volume_id, "instance_uuid": SERVER}}
    first = await cloud.ask("POST", "/attachments", body, user="compute", headers=under())
    again = await cloud.ask("POST", "/attachments", body, user="compute", headers=under())
    assert again.body == first.body
    assert len(await cloud.attachments(volume_id)) == 1


async def test_burying_tells_what_was_made_and_refuses_what_comes_late(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    body = {"attachment": {"volume_uuid": volume_id, "instance_uuid": SERVER}}
    made = await cloud.ask("POST", "/attachments", body, user="compute", headers=under())
    path = f"/mooring/operations/{SAGA}.reserve"
    buried = await cloud.ask("DELETE", path, user="compute")
    assert buried.body == {"made": [made.body["attachment"]["id"]]}
    path = f"/mooring/operations/{SAGA}.later"
    assert (await cloud.ask("DELETE", path, user="compute")).body == {"made": []}
    late = await cloud.ask("POST", "/attachments", body, user="compute", headers=under("later"))
    assert late.status == 410


async def test_an_older_owner_changes_nothing(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    newer = await cloud.connect(attachment_id, headers=under("connect", 7))
    assert newer.status == 200
    older = await cloud.detach(attachment_id, headers=under("delete", 6))
    assert older.status == 412
    assert await cloud.attachments(volume_id) == {attachment_id: "attaching"}
