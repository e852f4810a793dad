from __future__ import annotations

import pytest

from mooring.errors import Unavailable
from mooring.volume.attachments.loops.settle_borrowed import settle_once
from tests.volume.dock import SERVER, Dock, connector

pytestmark = pytest.mark.anyio


async def settle(dock: Dock, after_s: float = 601) -> None:
    dock.clock.advance(after_s)
    await settle_once(dock.volume)
    await dock.engine.settle()
    assert await dock.complaints() == []


async def test_what_was_asked_for_lately_is_left_alone(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.reserve(volume_id)
    await settle(dock, 599)
    assert await dock.status(volume_id) == "reserved"
    assert dock.compute.asked == 0


async def test_a_reservation_that_no_server_knows_goes(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.reserve(volume_id)
    await settle(dock)
    assert await dock.status(volume_id) == "available"
    assert await dock.attachments(volume_id) == {}


async def test_a_connection_that_no_server_knows_is_ended(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.reserve(volume_id, connector=connector())
    await settle(dock)
    assert await dock.status(volume_id) == "available"
    assert await dock.exports() == set()


async def test_a_reservation_of_a_shelved_server_stays(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = (await dock.reserve(volume_id)).json["attachment"]["id"]
    dock.compute.listed[SERVER, volume_id] = attachment_id
    await settle(dock)
    assert await dock.status(volume_id) == "reserved"
    await settle(dock, 599)
    assert dock.compute.asked == 1
    dock.compute.listed.clear()
    await settle(dock, 2)
    assert await dock.status(volume_id) == "available"


async def test_an_attach_that_the_server_shows_is_taken_for_done(dock: Dock) -> None:
    volume_id = await dock.make()
    made = await dock.reserve(volume_id, connector=connector())
    attachment_id = made.json["attachment"]["id"]
    dock.compute.listed[SERVER, volume_id] = attachment_id
    await settle(dock)
    assert await dock.attachments(volume_id) == {attachment_id: "attached"}
    assert await dock.status(volume_id) == "in-use"


async def test_of_two_attachments_the_empty_one_that_nobody_knows_goes(dock: Dock) -> None:
    volume_id = await dock.make()
    first = await dock.attach(volume_id)
    await dock.reserve(volume_id)
    await settle(dock)
    assert await dock.attachments(volume_id) == {first: "attached"}
    assert await dock.status(volume_id) == "in-use"


async def test_a_connected_one_beside_the_servers_own_is_not_touched(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.attach(volume_id)
    made = await dock.reserve(volume_id, connector=connector("host2"))
    second = made.json["attachment"]["id"]
    await settle(dock)
    assert (await dock.attachments(volume_id))[second] == "attaching"
    assert len(await dock.exports()) == 2


async def test_a_detach_that_was_given_up_is_rolled_back(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = await dock.attach(volume_id)
    await dock.act(volume_id, "os-begin_detaching")
    await settle(dock)
    assert await dock.status(volume_id) == "in-use"
    assert await dock.attachments(volume_id) == {attachment_id: "attached"}


async def test_a_detach_whose_server_let_go_is_finished(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.attach(volume_id)
    await dock.act(volume_id, "os-begin_detaching")
    dock.compute.listed.clear()
    await settle(dock)
    assert await dock.status(volume_id) == "available"
    assert await dock.exports() == set()


async def test_while_nobody_can_tell_nothing_changes(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.reserve(volume_id)
    dock.compute.failure = Unavailable("compute does not answer")
    await settle(dock)
    assert await dock.status(volume_id) == "reserved"
    dock.compute.failure = None
    await settle(dock, 60)
    assert await dock.status(volume_id) == "available"


async def test_a_legacy_reservation_that_nobody_took_up_goes(dock: Dock) -> None:
    volume_id = await dock.make()
    await dock.act(volume_id, "os-reserve")
    await settle(dock)
    assert await dock.status(volume_id) == "available"


async def test_a_legacy_reservation_beside_an_attachment_goes_back_to_in_use(dock: Dock) -> None:
    volume_id = await dock.make(volume_type=await dock.type_with(multiattach="<is> True"))
    await dock.attach(volume_id)
    await dock.act(volume_id, "os-reserve")
    assert await dock.status(volume_id) == "attaching"
    await settle(dock)
    assert await dock.status(volume_id) == "in-use"


async def test_a_status_set_by_hand_ends_too(dock: Dock) -> None:
    volume_id = await dock.make()
    for status in ("creating", "extending", "detaching", "attaching"):
        body = {"status": status}
        assert (await dock.act(volume_id, "os-reset_status", body, who="admin")).status == 202
        await settle(dock)
        assert await dock.status(volume_id) == "available"


async def test_an_attachment_without_a_server_is_its_makers(dock: Dock) -> None:
    volume_id = await dock.make()
    body = {"attachment": {"volume_uuid": volume_id}}
    await dock.ask("POST", "/attachments", body)
    await settle(dock)
    assert await dock.status(volume_id) == "reserved"
    assert len(await dock.attachments(volume_id)) == 1


async def test_a_reservation_taken_while_compute_was_asked_stays(dock: Dock) -> None:
    volume_id = await dock.make()
    attachment_id = (await dock.reserve(volume_id)).json["attachment"]["id"]
    dock.compute.meanwhile = lambda: dock.connect(attachment_id)
    await settle(dock)
    assert await dock.attachments(volume_id) == {attachment_id: "attaching"}
