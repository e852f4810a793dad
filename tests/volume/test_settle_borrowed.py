from __future__ import annotations

from pathlib import Path

import pytest

from mooring.errors import Unavailable
from mooring.volume.attachments.loops import settle_borrowed
from mooring.volume.attachments.loops.settle_borrowed import settle_from, settle_once
from tests.volume.cloud import SERVER, SERVER_2, VolumeCloud, connector

pytestmark = pytest.mark.anyio


async def settle(cloud: VolumeCloud, after_s: float = 601) -> None:
    cloud.clock.advance(after_s)
    await settle_once(cloud.volume)
    await cloud.settle()
    assert await cloud.complaints() == []


async def test_what_was_asked_for_lately_is_left_alone(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.reserve(volume_id)
    await settle(cloud, 599)
    assert await cloud.status(volume_id) == "reserved"
    assert cloud.compute.asked == 0


async def test_a_reservation_that_no_server_knows_goes(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.reserve(volume_id)
    await settle(cloud)
    assert await cloud.status(volume_id) == "available"
    assert await cloud.attachments(volume_id) == {}


async def test_a_connection_that_no_server_knows_is_ended(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.reserve(volume_id, connector=connector())
    await settle(cloud)
    assert await cloud.status(volume_id) == "available"
    assert await cloud.exports() == set()


async def test_a_reservation_of_a_shelved_server_stays(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    cloud.compute.listed[SERVER, volume_id] = attachment_id
    await settle(cloud)
    assert await cloud.status(volume_id) == "reserved"
    await settle(cloud, 599)
    assert cloud.compute.asked == 1
    cloud.compute.listed.clear()
    await settle(cloud, 2)
    assert await cloud.status(volume_id) == "available"


async def test_an_attach_that_the_server_shows_is_taken_for_done(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    made = await cloud.reserve(volume_id, connector=connector())
    attachment_id = made.body["attachment"]["id"]
    cloud.compute.listed[SERVER, volume_id] = attachment_id
    await settle(cloud)
    assert await cloud.attachments(volume_id) == {attachment_id: "attached"}
    assert await cloud.status(volume_id) == "in-use"


async def test_of_two_attachments_the_empty_one_that_nobody_knows_goes(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    first = await cloud.attach(volume_id)
    await cloud.reserve(volume_id)
    await settle(cloud)
    assert await cloud.attachments(volume_id) == {first: "attached"}
    assert await cloud.status(volume_id) == "in-use"


async def test_a_connected_one_beside_the_servers_own_is_not_touched(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.attach(volume_id)
    made = await cloud.reserve(volume_id, connector=connector("host2"))
    second = made.body["attachment"]["id"]
    await settle(cloud)
    assert (await cloud.attachments(volume_id))[second] == "attaching"
    assert len(await cloud.exports()) == 2


async def test_a_detach_that_was_given_up_is_rolled_back(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = await cloud.attach(volume_id)
    await cloud.act(volume_id, "os-begin_detaching")
    await settle(cloud)
    assert await cloud.status(volume_id) == "in-use"
    assert await cloud.attachments(volume_id) == {attachment_id: "attached"}


async def test_a_detach_whose_server_let_go_is_finished(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.attach(volume_id)
    await cloud.act(volume_id, "os-begin_detaching")
    cloud.compute.listed.clear()
    await settle(cloud)
    assert await cloud.status(volume_id) == "available"
    assert await cloud.exports() == set()


async def test_while_nobody_can_tell_nothing_changes(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.reserve(volume_id)
    cloud.compute.failure = Unavailable("compute does not answer")
    await settle(cloud)
    assert await cloud.status(volume_id) == "reserved"
    cloud.compute.failure = None
    await settle(cloud, 60)
    assert await cloud.status(volume_id) == "available"


async def test_attachments_that_nobody_can_tell_of_keep_no_other_from_being_settled(
    cloud: VolumeCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settle_borrowed, "_AT_ONCE", 2)
    lost, left = [await cloud.make() for _ in range(5)], await cloud.make()
    for volume_id in lost:
        await cloud.reserve(volume_id, server_id=SERVER_2)
    cloud.clock.advance(1)
    await cloud.reserve(left)
    cloud.compute.lost.add(SERVER_2)
    cloud.clock.advance(601)
    last = ""
    for _ in range(3):
        asked = cloud.compute.asked
        last = await settle_from(cloud.volume, last)
        assert cloud.compute.asked - asked <= 3
    await cloud.settle()
    assert last == ""
    assert await cloud.status(left) == "available"
    assert {await cloud.status(one) for one in lost} == {"reserved"}


async def test_a_legacy_reservation_that_nobody_took_up_goes(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    await cloud.act(volume_id, "os-reserve")
    await settle(cloud)
    assert await cloud.status(volume_id) == "available"


async def test_a_legacy_reservation_beside_an_attachment_goes_back_to_in_use(
    cloud: VolumeCloud,
) -> None:
    volume_id = await cloud.make(volume_type=await cloud.type_with(multiattach="<is> True"))
    await cloud.attach(volume_id)
    await cloud.act(volume_id, "os-reserve")
    assert await cloud.status(volume_id) == "attaching"
    await settle(cloud)
    assert await cloud.status(volume_id) == "in-use"


async def test_a_status_set_by_hand_ends_too(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    for status in ("creating", "extending", "detaching", "attaching"):
        body = {"status": status}
        assert (await cloud.act(volume_id, "os-reset_status", body, user="admin")).status == 202
        await settle(cloud)
        assert await cloud.status(volume_id) == "available"


async def test_an_attachment_without_a_server_is_its_makers(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    body = {"attachment": {"volume_uuid": volume_id}}
    await cloud.ask("POST", "/attachments", body)
    await settle(cloud)
    assert await cloud.status(volume_id) == "reserved"
    assert len(await cloud.attachments(volume_id)) == 1


async def test_a_reservation_taken_while_compute_was_asked_stays(cloud: VolumeCloud) -> None:
    volume_id = await cloud.make()
    attachment_id = (await cloud.reserve(volume_id)).body["attachment"]["id"]
    cloud.compute.meanwhile = lambda: cloud.connect(attachment_id)
    await settle(cloud)
    assert await cloud.attachments(volume_id) == {attachment_id: "attaching"}


async def test_how_long_it_is_left_alone_is_the_operators_to_say(tmp_path: Path) -> None:
    async with VolumeCloud(tmp_path, borrowed_for_s=30) as cloud:
        volume_id = await cloud.make()
        await cloud.reserve(volume_id)
        await settle(cloud, 29)
        assert await cloud.status(volume_id) == "reserved"
        await settle(cloud, 2)
        assert await cloud.status(volume_id) == "available"
