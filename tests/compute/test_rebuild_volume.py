"""Rebuilding a server that boots from a volume: the numbered steps of specs 002 and 004."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.clients.transport import Forward, Request, Response
from mooring.neighbour import NoAnswer
from tests.compute.rebuilding import (
    NEW,
    Between,
    attachments_of,
    boot,
    image_of,
    make_booted,
    rebuild,
    rebuild_well,
    state,
    stock,
    volume,
)
from tests.compute.yard import IMAGE, Yard

pytestmark = pytest.mark.anyio


async def test_the_volume_gets_the_image_and_the_guest_runs_again(yard: Yard) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    data = await yard.make_volume()
    await yard.attach(server_id, data)
    await yard.settle()
    others = (await yard.attachments(server_id))[1:]
    answer = await rebuild(yard, server_id)
    assert answer.status_code == 202
    assert (answer.json()["server"]["status"], answer.json()["server"]["image"]) == ("REBUILD", "")
    await yard.settle()
    assert await state(yard, server_id) == ("ACTIVE", None)
    assert yard.driver().content(volume_id) == NEW
    assert await image_of(yard, volume_id) == NEW
    assert await yard.disks(server_id) == [volume_id, data]
    assert (await yard.attachments(server_id))[1:] == others
    assert [await yard.volume_status(one) for one in (volume_id, data)] == ["in-use", "in-use"]
    assert sorted(await yard.connections()) == sorted([volume_id, data])
    assert (await yard.actions(server_id))[-1] == ("rebuild", None)


async def test_steps_1_to_9_come_in_the_specs_order(yard: Yard) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    old = (await yard.attachments(server_id))[0]["attachment_id"]
    between = Between(yard)
    await rebuild_well(yard, server_id)
    new = (await yard.attachments(server_id))[0]["attachment_id"]
    changes = [one.replace("/volume/v3", "") for one in between.seen if not one.startswith("GET")]
    assert changes == [
        "POST /attachments",
        f"DELETE /attachments/{old}",
        f"POST /volumes/{volume_id}/action os-reimage",
        f"PUT /attachments/{new}",
        f"POST /attachments/{new}/action os-complete",
    ]


async def test_step_1_and_2_leave_one_empty_attachment_and_step_4_the_volume_reserved(
    yard: Yard,
) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    old = (await yard.attachments(server_id))[0]["attachment_id"]
    between = Between(yard)
    between.answer("POST", "/action os-reimage", 500)
    await rebuild(yard, server_id)
    seen: set[tuple[str, str]] = set()
    yard.driver().knobs.hold("replace")
    for _ in range(400):
        listed = await attachments_of(yard, volume_id)
        seen.add((await yard.volume_status(volume_id), ",".join(word for _, word in listed)))
        if (await yard.volume_status(volume_id)) == "downloading":
            break
    assert ("reserved", "reserved") in seen
    assert [one for one, _ in await attachments_of(yard, volume_id)] != [old]
    assert await yard.connections() == []
    yard.driver().knobs.release("replace")
    await yard.settle()
    assert await state(yard, server_id) == ("ACTIVE", None)


async def test_step_3_saves_the_new_attachment_and_step_6_waits_for_the_event(yard: Yard) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    yard.driver().knobs.hold("replace")
    await rebuild(yard, server_id)
    for _ in range(400):
        if (await yard.volume_status(volume_id)) == "downloading":
            break
    shown = (await yard.attachments(server_id))[0]["attachment_id"]
    assert await attachments_of(yard, volume_id) == [(shown, "reserved")]
    assert await state(yard, server_id) == ("REBUILD", "rebuilding")
    guest = await yard.agents["host1"].show_server(server_id)
    assert guest is None
    yard.driver().knobs.release("replace")
    await yard.settle()
    assert await attachments_of(yard, volume_id) == [(shown, "attached")]


async def test_without_the_event_the_status_of_the_volume_tells(yard: Yard) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)

    async def lose_events(request: Request, forward: Forward) -> Response:
        if request.path.endswith("/os-server-external-events"):
            raise NoAnswer("The event was lost.")
        return await forward(request)

    yard.network.deliver = lose_events
    assert (await rebuild(yard, server_id)).status_code == 202
    while await image_of(yard, volume_id) != NEW:
        await yard.volume_status(volume_id)
    # The volume service tries for a while to tell, and holds the volume meanwhile.
    await yard.volume.sagas.settle()
    await yard.settle()
    assert await state(yard, server_id) == ("ACTIVE", None)
    assert await image_of(yard, volume_id) == NEW


async def test_a_server_that_was_stopped_ends_stopped(yard: Yard) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    await yard.act(server_id, "os-stop")
    await yard.settle()
    await rebuild_well(yard, server_id)
    assert await state(yard, server_id) == ("SHUTOFF", None)
    guest = await yard.agents["host1"].show_server(server_id)
    assert guest is not None
    assert guest.state == "stopped"
    assert await yard.volume_status(volume_id) == "in-use"
    assert await image_of(yard, volume_id) == NEW


async def test_the_same_image_from_2_93_on_is_written_again(yard: Yard) -> None:
    server_id, volume_id = await make_booted(yard)
    await rebuild_well(yard, server_id, IMAGE)
    assert yard.driver().knobs.passed["replace"] == 1
    assert await state(yard, server_id) == ("ACTIVE", None)
    assert await yard.volume_status(volume_id) == "in-use"


async def test_the_same_image_below_2_93_keeps_the_data(yard: Yard) -> None:
    server_id, volume_id = await make_booted(yard)
    before = await yard.attachments(server_id)
    await rebuild_well(yard, server_id, IMAGE, version="2.92")
    assert "replace" not in yard.driver().knobs.passed
    assert await yard.attachments(server_id) == before
    assert await state(yard, server_id) == ("ACTIVE", None)
    assert await yard.disks(server_id) == [volume_id]


async def test_reimage_boot_volume_false_with_the_same_image_keeps_the_data(yard: Yard) -> None:
    server_id, volume_id = await make_booted(yard)
    for word in (False, "False", "no"):
        await rebuild_well(yard, server_id, IMAGE, reimage_boot_volume=word)
    assert "replace" not in yard.driver().knobs.passed
    assert await state(yard, server_id) == ("ACTIVE", None)
    assert await yard.volume_status(volume_id) == "in-use"


async def test_reimage_boot_volume_true_reimages_as_leaving_it_out_does(yard: Yard) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    await rebuild_well(yard, server_id, reimage_boot_volume="True")
    assert await image_of(yard, volume_id) == NEW
    await yard.look()
    await rebuild_well(yard, server_id, IMAGE, reimage_boot_volume=True)
    assert await image_of(yard, volume_id) == IMAGE


async def refused(yard: Yard, server_id: str, words: str, **more: Any) -> None:
    """See that a rebuild is 400 with these words, and that nothing was changed."""
    between = Between(yard)
    answer = await rebuild(yard, server_id, **more)
    assert answer.status_code == 400, answer.text
    assert words in answer.text
    assert [one for one in between.seen if not one.startswith("GET")] == []
    assert "rebuild" not in [action for action, _ in await yard.actions(server_id)]


async def test_a_new_image_below_2_93_is_400(yard: Yard) -> None:
    stock(yard)
    server_id, _ = await make_booted(yard)
    await refused(yard, server_id, "different image", version="2.92")


async def test_a_new_image_with_reimage_boot_volume_false_is_400(yard: Yard) -> None:
    stock(yard)
    server_id, _ = await make_booted(yard)
    await refused(yard, server_id, "reimage_boot_volume is false", reimage_boot_volume="false")


async def test_a_volume_endpoint_below_3_68_is_400(yard: Yard) -> None:
    stock(yard)
    server_id, _ = await make_booted(yard)
    old = {"versions": [{"id": "v3.0", "version": "3.67"}, {"id": "v2.0", "version": ""}]}
    between = Between(yard)
    between.answer("GET", "/v3/", 200, old)
    answer = await rebuild(yard, server_id)
    assert answer.status_code == 400
    assert "CinderAPIVersionNotAvailable" in answer.text
    assert "3.67" in answer.text
    assert await state(yard, server_id) == ("ACTIVE", None)


async def test_a_host_without_the_trait_is_400(yard: Yard) -> None:
    stock(yard)
    server_id, _ = await make_booted(yard)
    await yard.close()
    yard.hidden_traits = frozenset({"COMPUTE_REBUILD_BFV"})
    await yard.open()
    stock(yard)
    await refused(yard, server_id, "RebuildVolumeBackedServerNotSupport")
    await rebuild_well(yard, server_id, IMAGE, reimage_boot_volume=False)


async def test_a_multiattach_root_volume_is_400(yard: Yard) -> None:
    stock(yard)
    volume_id = await yard.make_shared_volume()
    mark = {"os-set_bootable": {"bootable": True}}
    await yard.volume_api("POST", f"/volumes/{volume_id}/action", mark)
    server_id = await boot(yard, volume_id)
    await refused(yard, server_id, "multiattach")


async def test_a_volume_that_is_not_in_use_is_400(yard: Yard) -> None:
    stock(yard)
    server_id, _ = await make_booted(yard)
    data = await yard.make_volume()
    await yard.attach(server_id, data)
    await yard.settle()
    reset = {"os-reset_status": {"status": "error"}}
    await yard.volume_api("POST", f"/volumes/{data}/action", reset, who="admin")
    await refused(yard, server_id, "error")
    reset = {"os-reset_status": {"status": "available"}}
    await yard.volume_api("POST", f"/volumes/{data}/action", reset, who="admin")
    await refused(yard, server_id, "available")


async def test_an_image_larger_than_the_volume_is_400(yard: Yard) -> None:
    shelf = stock(yard)
    server_id, _ = await make_booted(yard)
    for said in ({"min_disk": 2}, {"virtual_size": 2 << 30}, {"size": (1 << 30) + 1}):
        shelf.images[NEW] |= said
        await refused(yard, server_id, "larger than the root disk")
        shelf.images[NEW] |= {"min_disk": 0, "virtual_size": 0, "size": 65536}


async def test_a_server_that_boots_from_a_volume_shows_no_image(yard: Yard) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    await rebuild_well(yard, server_id)
    assert (await yard.server(server_id))["image"] == ""
    assert (await volume(yard, volume_id))["bootable"] == "true"
