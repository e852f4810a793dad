"""What os-volume_attachments shows and takes in each microversion."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update

from mooring.compute.tables import Host
from tests.compute.yard import Yard

pytestmark = pytest.mark.anyio


async def attached(yard: Yard, **more: Any) -> tuple[str, str]:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    answer = await yard.attach(server_id, volume_id, more=more)
    assert answer.status_code == 200, answer.text
    await yard.settle()
    return server_id, volume_id


async def put(
    yard: Yard, ids: tuple[str, str], version: str, who: str = "member", **more: Any
) -> int:
    server_id, volume_id = ids
    path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
    body = {"volumeAttachment": {"volumeId": volume_id, **more}}
    return (await yard.ask("PUT", path, body, who=who, version=version)).status_code


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
    yard: Yard, version: str, keys: set[str]
) -> None:
    server_id, volume_id = await attached(yard)
    listed = await yard.attachments(server_id, version)
    assert [set(one) for one in listed] == [keys]
    path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
    shown = (await yard.ask("GET", path, version=version)).json()["volumeAttachment"]
    assert shown == listed[0]


async def test_tag_and_termination_are_taken_from_their_versions_on(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    for version, more in (
        ("2.48", {"tag": "data"}),
        ("2.78", {"delete_on_termination": True}),
        ("2.79", {"tag": "a,b"}),
        ("2.79", {"nonsense": 1}),
    ):
        answer = await yard.attach(server_id, volume_id, more=more, version=version)
        assert answer.status_code == 400, (version, more)
    more = {"tag": "data", "delete_on_termination": True}
    answer = await yard.attach(server_id, volume_id, more=more, version="2.79")
    assert answer.status_code == 400
    assert "COMPUTE_VOLUME_ATTACH_WITH_TAG" in answer.text
    able = update(Host).values(traits=["COMPUTE_VOLUME_ATTACH_WITH_TAG"])
    await yard.stores["compute"].write(lambda tx: tx.execute(able) and None)
    answer = await yard.attach(server_id, volume_id, more=more, version="2.79")
    assert answer.status_code == 200
    await yard.settle()
    shown = (await yard.attachments(server_id))[0]
    assert (shown["tag"], shown["delete_on_termination"]) == ("data", True)
    await yard.ask("DELETE", f"/servers/{server_id}")
    await yard.settle()
    assert await yard.volume_status(volume_id) == "gone"


async def test_only_the_termination_of_an_attachment_is_mutable(yard: Yard) -> None:
    ids = await attached(yard)
    assert await put(yard, ids, "2.85", delete_on_termination=True) == 202
    assert (await yard.attachments(ids[0]))[0]["delete_on_termination"] is True
    assert await put(yard, ids, "2.85", device="/dev/vdb", serverId=ids[0], id=ids[1]) == 202
    assert await put(yard, ids, "2.85", device="/dev/vdz") == 400
    assert await put(yard, ids, "2.85", tag="other") == 400
    other = (ids[0], await yard.make_volume())
    assert await put(yard, other, "2.85") == 404


async def test_swap_is_refused_and_only_services_may_ask(yard: Yard) -> None:
    server_id, volume_id = await attached(yard)
    path = f"/servers/{server_id}/os-volume_attachments/{volume_id}"
    body = {"volumeAttachment": {"volumeId": await yard.make_volume()}}
    for version in ("2.1", "2.85"):
        refused = await yard.ask("PUT", path, body, version=version)
        assert refused.status_code == 403
        asked = await yard.ask("PUT", path, body, version=version, who="admin")
        assert asked.status_code == 409
        assert "not built" in asked.text


async def test_unknown_query_is_refused_from_2_75(yard: Yard) -> None:
    server_id, _ = await attached(yard)
    path = f"/servers/{server_id}/os-volume_attachments?colour=red"
    assert (await yard.ask("GET", path, version="2.74")).status_code == 200
    assert (await yard.ask("GET", path, version="2.75")).status_code == 400


async def test_page_is_cut_by_limit_and_offset(yard: Yard) -> None:
    server_id, first = await attached(yard)
    second = await yard.make_volume()
    await yard.attach(server_id, second)
    await yard.settle()
    path = f"/servers/{server_id}/os-volume_attachments"
    for query, expected in (("?limit=1", [first]), ("?limit=5&offset=1", [second])):
        listed = (await yard.ask("GET", path + query)).json()["volumeAttachments"]
        assert [one["volumeId"] for one in listed] == expected


async def test_multiattach_volume_needs_2_60_and_serves_two_servers(yard: Yard) -> None:
    volume_id = await yard.make_shared_volume()
    one, two = await yard.make_server(), await yard.make_server()
    assert (await yard.attach(one, volume_id, version="2.59")).status_code == 400
    for server_id in (one, two):
        assert (await yard.attach(server_id, volume_id, version="2.60")).status_code == 200
        await yard.settle()
        assert await yard.disks(server_id) == [volume_id]
    assert (await yard.detach(one, volume_id)).status_code == 202
    await yard.settle()
    assert await yard.volume_status(volume_id) == "in-use"
    assert await yard.disks(two) == [volume_id]
    await yard.detach(two, volume_id)
    await yard.settle()
    assert await yard.volume_status(volume_id) == "available"
