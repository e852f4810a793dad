"""What os-volume_attachments shows and takes in each microversion."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from mooring.compute.tables import Host
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio


async def attached(cloud: ComputeCloud, **more: Any) -> tuple[str, str]:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    answer = await cloud.attach(server_id, volume_id, more=more)
    assert answer.status == 200, answer.text
    await cloud.settle()
    return server_id, volume_id


async def put(
    cloud: ComputeCloud, ids: tuple[str, str], version: str, who: str = "member", **more: Any
) -> int:
    server_id, volume_id = ids
    path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
    body = {"volumeAttachment": {"volumeId": volume_id, **more}}
    return (await cloud.ask("PUT", path, body, user=who, version=version)).status


@pytest.mark.parametrize(
    ("version", "keys"),
    [
        ("2.1", {"id", "volumeId", "serverId", "device"}),
        ("2.70", {"id", "volumeId", "serverId", "device", "tag"}),
        ("2.79", {"id", "volumeId", "serverId", "device", "tag", "delete_on_termination"}),
        (
            "2.89",
            {
                "volumeId",
                "serverId",
                "device",
                "tag",
                "delete_on_termination",
                "attachment_id",
                "bdm_uuid",
            },
        ),
    ],
)
async def test_attachment_shows_what_its_version_has(
    cloud: ComputeCloud, version: str, keys: set[str]
) -> None:
    server_id, volume_id = await attached(cloud)
    listed = await cloud.attachments(server_id, version)
    assert [set(one) for one in listed] == [keys]
    path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
    shown = (await cloud.ask("GET", path, version=version)).body["volumeAttachment"]
    assert shown == listed[0]


async def test_tag_and_termination_are_taken_from_their_versions_on(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    for version, more in (
        ("2.48", {"tag": "data"}),
        ("2.78", {"delete_on_termination": True}),
        ("2.79", {"tag": "a,b"}),
        ("2.79", {"nonsense": 1}),
    ):
        answer = await cloud.attach(server_id, volume_id, more=more, version=version)
        assert answer.status == 400, (version, more)
    more = {"tag": "data", "delete_on_termination": True}
    answer = await cloud.attach(server_id, volume_id, more=more, version="2.79")
    assert answer.status == 400
    assert "COMPUTE_VOLUME_ATTACH_WITH_TAG" in answer.text
    able = update(Host).values(traits=["COMPUTE_VOLUME_ATTACH_WITH_TAG"])
    await cloud.stores["compute"].write(lambda tx: tx.execute(able) and None)
    answer = await cloud.attach(server_id, volume_id, more=more, version="2.79")
    assert answer.status == 200
    await cloud.settle()
    shown = (await cloud.attachments(server_id))[0]
    assert (shown["tag"], shown["delete_on_termination"]) == ("data", True)
    await cloud.ask("DELETE", f"/servers/{server_id}")
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "gone"


async def test_only_the_termination_of_an_attachment_is_mutable(cloud: ComputeCloud) -> None:
    ids = await attached(cloud)
    assert await put(cloud, ids, "2.85", delete_on_termination=True) == 202
    assert (await cloud.attachments(ids[0]))[0]["delete_on_termination"] is True
    assert await put(cloud, ids, "2.85", device="/dev/vdb", serverId=ids[0], id=ids[1]) == 202
    assert await put(cloud, ids, "2.85", device="/dev/vdz") == 400
    assert await put(cloud, ids, "2.85", tag="other") == 400
    other = (ids[0], await cloud.make_volume())
    assert await put(cloud, other, "2.85") == 404


async def test_unknown_query_is_refused_from_2_75(cloud: ComputeCloud) -> None:
    server_id, _ = await attached(cloud)
    path = f"/servers/{server_id}/os-volume_attachments?colour=red"
    assert (await cloud.ask("GET", path, version="2.74")).status == 200
    assert (await cloud.ask("GET", path, version="2.75")).status == 400


async def test_page_is_cut_by_limit_and_offset(cloud: ComputeCloud) -> None:
    server_id, first = await attached(cloud)
    second = await cloud.make_volume()
    await cloud.attach(server_id, second)
    await cloud.settle()
    path = f"/servers/{server_id}/os-volume_attachments"
    for query, expected in (("?limit=1", [first]), ("?limit=5&offset=1", [second])):
        listed = (await cloud.ask("GET", path + query)).body["volumeAttachments"]
        assert [one["volumeId"] for one in listed] == expected


async def test_multiattach_volume_needs_2_60_and_serves_two_servers(cloud: ComputeCloud) -> None:
    volume_id = await cloud.make_shared_volume()
    one, two = await cloud.make_server(), await cloud.make_server()
    assert (await cloud.attach(one, volume_id, version="2.59")).status == 400
    for server_id in (one, two):
        assert (await cloud.attach(server_id, volume_id, version="2.60")).status == 200
        await cloud.settle()
        assert await cloud.disks(server_id) == [volume_id]
    assert (await cloud.detach(one, volume_id)).status == 202
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "in-use"
    assert await cloud.disks(two) == [volume_id]
    await cloud.detach(two, volume_id)
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "available"
