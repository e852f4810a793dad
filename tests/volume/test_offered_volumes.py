"""Volumes that wait for somebody to accept their transfer: nothing else is done with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.callers import PROJECT
from tests.volume.cloud import IMAGE, SERVER, VolumeCloud
from tests.volume.test_transfers import offered, owner_of, snapshot_of

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/attachments", {"attachment": {"volume_uuid": "ID", "instance_uuid": SERVER}}),
        ("/volumes/ID/action", {"os-reserve": {}}),
        ("/volumes/ID/action", {"os-attach": {"instance_uuid": SERVER, "mountpoint": "vdb"}}),
        ("/volumes/ID/action", {"os-extend": {"new_size": 2}}),
        ("/volumes/ID/action", {"os-update_readonly_flag": {"readonly": True}}),
        ("/volumes/ID/action", {"os-volume_upload_image": {"image_name": "i"}}),
        ("/volumes/ID/action", {"os-reimage": {"image_id": IMAGE}}),
        ("/snapshots", {"snapshot": {"volume_id": "ID"}}),
        ("/snapshots", {"snapshot": {"volume_id": "ID", "force": True}}),
        ("/backups", {"backup": {"volume_id": "ID"}}),
        ("/volume-transfers", {"transfer": {"volume_id": "ID"}}),
        ("/volumes/ID", None),
    ],
)
async def test_what_is_offered_is_given_to_nobody_else_and_who_asks_is_told_why(
    cloud: VolumeCloud, path: str, body: Any
) -> None:
    volume_id = await cloud.make()
    await offered(cloud, volume_id)
    words = json.loads(json.dumps(body).replace("ID", volume_id))
    method = "POST" if body else "DELETE"
    answer = await cloud.ask(method, path.replace("ID", volume_id), words, version="3.68")
    assert answer.status == 400
    assert "have its transfer accepted, or delete that first" in answer.text
    assert await owner_of(cloud, volume_id) == ("awaiting-transfer", PROJECT)


async def test_a_volume_with_snapshots_is_not_reverted_while_it_is_offered(
    cloud: VolumeCloud,
) -> None:
    volume_id = await cloud.make()
    snapshot_id = await snapshot_of(cloud, volume_id)
    await offered(cloud, volume_id)
    path, body = f"/volumes/{volume_id}/action", {"revert": {"snapshot_id": snapshot_id}}
    answer = await cloud.ask("POST", path, body, version="3.40")
    assert answer.status == 409
    assert "have its transfer accepted, or delete that first" in answer.text
