"""Volumes that are made for a server, of a type that several servers may have."""

from __future__ import annotations

import pytest

from tests.compute.cloud import IMAGE, ComputeCloud
from tests.compute.rescuing import guest_of

pytestmark = pytest.mark.anyio
SOURCES = ("image", "blank", "snapshot")


@pytest.mark.parametrize("source", SOURCES)
async def test_another_server_has_what_was_made_for_the_first(
    any_cloud: ComputeCloud, source: str
) -> None:
    cloud = any_cloud
    shared = await cloud.make_shared_volume()
    item = {"source_type": source, "destination_type": "volume", "volume_size": 1}
    if source == "snapshot":
        body = {"snapshot": {"volume_id": shared}}
        made = (await cloud.volume_api("POST", "/snapshots", body))["snapshot"]
        await cloud.settle()
        item["uuid"] = made["id"]
    else:
        item |= {"volume_type": "shared", **({"uuid": IMAGE} if source == "image" else {})}
    first = await cloud.make_server(
        imageRef=IMAGE,
        block_device_mapping_v2=[
            {
                "source_type": "image",
                "destination_type": "local",
                "uuid": IMAGE,
                "boot_index": 0,
            },
            item,
        ],
    )
    (disk,) = await cloud.attachments(first)
    second = await cloud.make_server()
    assert (await cloud.attach(second, disk["volumeId"], version="2.60")).status == 200
    await cloud.settle()
    for server_id in (first, second):
        assert [one.volume_id for one in (await guest_of(cloud, server_id)).disks] == [
            disk["volumeId"]
        ]
        # Each starts beside the other one.
        assert await cloud.act(server_id, "reboot", {"type": "HARD"}) == 202
        await cloud.settle()
        assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await cloud.complaints() == []
