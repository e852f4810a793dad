"""Rebuilding a server that boots from a volume: the numbered steps of specs 002 and 004."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from mooring.clients.transport import Forward, Request, Response
from mooring.neighbour import NoAnswer
from tests.compute.cloud import IMAGE, NEW, ComputeCloud
from tests.compute.rebuilding import (
    Between,
    attachments_of,
    boot,
    booted_cloud,
    image_of,
    make_booted,
    rebuild,
    rebuild_well,
    state,
    until_volume,
    volume,
)
from tests.kept import Keeper
from tests.waiting import until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(keeper: Keeper) -> AsyncIterator[ComputeCloud]:
    """One with what `make_booted` makes."""
    async with booted_cloud(keeper) as opened:
        yield opened


async def test_the_volume_gets_the_image_and_the_guest_runs_again(cloud: ComputeCloud) -> None:
    server_id, volume_id = await make_booted(cloud)
    data = await cloud.make_volume()
    await cloud.attach(server_id, data)
    await cloud.settle()
    others = (await cloud.attachments(server_id))[1:]
    answer = await rebuild(cloud, server_id)
    assert answer.status == 202
    assert (answer.body["server"]["status"], answer.body["server"]["image"]) == ("REBUILD", "")
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert cloud.driver().content(volume_id) == NEW
    assert await image_of(cloud, volume_id) == NEW
    assert await cloud.disks(server_id) == [volume_id, data]
    assert (await cloud.attachments(server_id))[1:] == others
    assert [await cloud.volume_status(one) for one in (volume_id, data)] == ["in-use", "in-use"]
    assert sorted(await cloud.connections()) == sorted([volume_id, data])
    assert (await cloud.actions(server_id))[-1] == ("rebuild", None)


async def test_its_snapshots_keep_what_was_before(any_cloud: ComputeCloud) -> None:
    server_id, volume_id = await make_booted(any_cloud)
    body = {"snapshot": {"volume_id": volume_id, "force": True}}
    taken = (await any_cloud.volume_api("POST", "/snapshots", body))["snapshot"]["id"]
    await any_cloud.settle()
    await rebuild_well(any_cloud, server_id)
    assert await state(any_cloud, server_id) == ("ACTIVE", None)
    assert await image_of(any_cloud, volume_id) == NEW
    shown = (await any_cloud.volume_api("GET", f"/snapshots/{taken}"))["snapshot"]
    assert shown["status"] == "available"
    assert any_cloud.driver().content(volume_id) == NEW
    assert await any_cloud.complaints() == []


async def test_steps_1_to_9_come_in_the_specs_order(cloud: ComputeCloud) -> None:
    server_id, volume_id = await make_booted(cloud)
    old = (await cloud.attachments(server_id))[0]["attachment_id"]
    between = Between(cloud)
    await rebuild_well(cloud, server_id)
    new = (await cloud.attachments(server_id))[0]["attachment_id"]
    changes = [one.replace("/volume/v3", "") for one in between.seen if not one.startswith("GET")]
    assert changes == [
        "POST /attachments",
        f"DELETE /attachments/{old}",
        f"POST /volumes/{volume_id}/action os-reimage",
        f"PUT /attachments/{new}",
        f"POST /attachments/{new}/action os-complete",
    ]


async def test_step_1_and_2_leave_one_empty_attachment_and_step_4_the_volume_reserved(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await make_booted(cloud)
    old = (await cloud.attachments(server_id))[0]["attachment_id"]
    between = Between(cloud)
    between.answer("POST", "/action os-reimage", 500)
    await rebuild(cloud, server_id)
    cloud.driver().knobs.hold("replace")

    async def is_reserved() -> bool:
        words = [word for _, word in await attachments_of(cloud, volume_id)]
        return (await cloud.volume_status(volume_id), words) == ("reserved", ["reserved"])

    await until(is_reserved, "the volume has an attachment that nobody uses, and no other")
    assert [one for one, _ in await attachments_of(cloud, volume_id)] != [old]
    assert await cloud.connections() == []
    cloud.driver().knobs.release("replace")
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None)


async def test_step_3_saves_the_new_attachment_and_step_6_waits_for_the_event(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await make_booted(cloud)
    cloud.driver().knobs.hold("replace")
    await rebuild(cloud, server_id)
    await until_volume(cloud, volume_id, "downloading")
    shown = (await cloud.attachments(server_id))[0]["attachment_id"]
    assert await attachments_of(cloud, volume_id) == [(shown, "reserved")]
    assert await state(cloud, server_id) == ("REBUILD", "rebuilding")
    guest = await cloud.known_agents["host1"].show_server(server_id)
    assert guest is None
    cloud.driver().knobs.release("replace")
    await cloud.settle()
    assert await attachments_of(cloud, volume_id) == [(shown, "attached")]


async def test_without_the_event_the_status_of_the_volume_tells(cloud: ComputeCloud) -> None:
    server_id, volume_id = await make_booted(cloud)

    async def lose_events(request: Request, forward: Forward) -> Response:
        if request.path.endswith("/os-server-external-events"):
            raise NoAnswer("The event was lost.")
        return await forward(request)

    cloud.deliver = lose_events
    assert (await rebuild(cloud, server_id)).status == 202
    while await image_of(cloud, volume_id) != NEW:
        await cloud.volume_status(volume_id)
    # The volume service tries for a while to tell, and holds the volume meanwhile.
    await cloud.volume.sagas.settle()
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert await image_of(cloud, volume_id) == NEW


async def test_a_server_that_was_stopped_ends_stopped(cloud: ComputeCloud) -> None:
    server_id, volume_id = await make_booted(cloud)
    await cloud.act(server_id, "os-stop")
    await cloud.settle()
    await rebuild_well(cloud, server_id)
    assert await state(cloud, server_id) == ("SHUTOFF", None)
    guest = await cloud.known_agents["host1"].show_server(server_id)
    assert guest is not None
    assert guest.state == "stopped"
    assert await cloud.volume_status(volume_id) == "in-use"
    assert await image_of(cloud, volume_id) == NEW


async def test_the_same_image_from_2_93_on_is_written_again(cloud: ComputeCloud) -> None:
    server_id, volume_id = await make_booted(cloud)
    await rebuild_well(cloud, server_id, IMAGE)
    assert cloud.driver().knobs.passed["replace"] == 1
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert await cloud.volume_status(volume_id) == "in-use"


async def test_the_same_image_below_2_93_keeps_the_data(cloud: ComputeCloud) -> None:
    server_id, volume_id = await make_booted(cloud)
    before = await cloud.attachments(server_id)
    await rebuild_well(cloud, server_id, IMAGE, version="2.92")
    assert "replace" not in cloud.driver().knobs.passed
    assert await cloud.attachments(server_id) == before
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert await cloud.disks(server_id) == [volume_id]


async def test_reimage_boot_volume_false_with_the_same_image_keeps_the_data(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await make_booted(cloud)
    for word in (False, "False", "no"):
        await rebuild_well(cloud, server_id, IMAGE, reimage_boot_volume=word)
    assert "replace" not in cloud.driver().knobs.passed
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert await cloud.volume_status(volume_id) == "in-use"


async def test_reimage_boot_volume_true_reimages_as_leaving_it_out_does(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await make_booted(cloud)
    await rebuild_well(cloud, server_id, reimage_boot_volume="True")
    assert await image_of(cloud, volume_id) == NEW
    await cloud.look_at_hosts()
    await rebuild_well(cloud, server_id, IMAGE, reimage_boot_volume=True)
    assert await image_of(cloud, volume_id) == IMAGE


async def refused(cloud: ComputeCloud, server_id: str, words: str, **more: Any) -> None:
    """See that a rebuild is 400 with these words, and that nothing was changed."""
    between = Between(cloud)
    answer = await rebuild(cloud, server_id, **more)
    assert answer.status == 400, answer.text
    assert words in answer.text
    assert [one for one in between.seen if not one.startswith("GET")] == []
    assert "rebuild" not in [action for action, _ in await cloud.actions(server_id)]


async def test_a_new_image_below_2_93_is_400(cloud: ComputeCloud) -> None:
    server_id, _ = await make_booted(cloud)
    await refused(cloud, server_id, "different image", version="2.92")


async def test_a_new_image_with_reimage_boot_volume_false_is_400(cloud: ComputeCloud) -> None:
    server_id, _ = await make_booted(cloud)
    await refused(cloud, server_id, "reimage_boot_volume is false", reimage_boot_volume="false")


async def test_a_volume_endpoint_below_3_68_is_400(cloud: ComputeCloud) -> None:
    server_id, _ = await make_booted(cloud)
    old = {"versions": [{"id": "v3.0", "version": "3.67"}, {"id": "v2.0", "version": ""}]}
    between = Between(cloud)
    between.answer("GET", "/v3/", 200, old)
    answer = await rebuild(cloud, server_id)
    assert answer.status == 400
    assert "CinderAPIVersionNotAvailable" in answer.text
    assert "3.67" in answer.text
    assert await state(cloud, server_id) == ("ACTIVE", None)


async def test_a_host_without_the_trait_is_400(cloud: ComputeCloud) -> None:
    server_id, _ = await make_booted(cloud)
    await cloud.change_host("host1", hidden_traits=frozenset({"COMPUTE_REBUILD_BFV"}))
    await refused(cloud, server_id, "RebuildVolumeBackedServerNotSupport")
    await rebuild_well(cloud, server_id, IMAGE, reimage_boot_volume=False)


async def test_placements_word_on_the_trait_counts(cloud: ComputeCloud) -> None:
    server_id, _ = await make_booted(cloud)
    placement = cloud.compute.placement
    (provider,) = await placement.providers(name="host1")
    had = await placement.traits(provider.uuid)
    await placement.put_traits(provider.uuid, had - {"COMPUTE_REBUILD_BFV"})
    await refused(cloud, server_id, "RebuildVolumeBackedServerNotSupport")
    await placement.put_traits(provider.uuid, had)
    await rebuild_well(cloud, server_id)


async def test_where_placement_does_not_know_the_trait_one_of_an_operator_stands_for_it(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await make_booted(cloud)
    placement, custom = cloud.compute.placement, "CUSTOM_COMPUTE_REBUILD_BFV"
    (provider,) = await placement.providers(name="host1")
    had = await placement.traits(provider.uuid)
    made = await cloud.ask("PUT", f"/placement/traits/{custom}", user="admin", version="1.39")
    assert made.status == 201, made.text
    await placement.put_traits(provider.uuid, had - {"COMPUTE_REBUILD_BFV"} | {custom})
    await rebuild_well(cloud, server_id)
    assert await image_of(cloud, volume_id) == NEW


async def test_a_multiattach_root_volume_is_400(cloud: ComputeCloud) -> None:
    volume_id = await cloud.make_shared_volume()
    mark = {"os-set_bootable": {"bootable": True}}
    await cloud.volume_api("POST", f"/volumes/{volume_id}/action", mark)
    server_id = await boot(cloud, volume_id)
    await refused(cloud, server_id, "multiattach")


async def test_a_volume_that_is_not_in_use_is_400(cloud: ComputeCloud) -> None:
    server_id, _ = await make_booted(cloud)
    data = await cloud.make_volume()
    await cloud.attach(server_id, data)
    await cloud.settle()
    reset = {"os-reset_status": {"status": "error"}}
    await cloud.volume_api("POST", f"/volumes/{data}/action", reset, user="admin")
    await refused(cloud, server_id, "error")
    reset = {"os-reset_status": {"status": "available"}}
    await cloud.volume_api("POST", f"/volumes/{data}/action", reset, user="admin")
    await refused(cloud, server_id, "available")


async def test_an_image_larger_than_the_volume_is_400(cloud: ComputeCloud) -> None:
    server_id, _ = await make_booted(cloud)
    for said in ({"min_disk": 2}, {"virtual_size": 2 << 30}, {"size": (1 << 30) + 1}):
        cloud.shelf.images[NEW] |= said
        await refused(cloud, server_id, "larger than the root disk")
        cloud.shelf.images[NEW] |= {"min_disk": 0, "virtual_size": 0, "size": 65536}


async def test_a_server_that_boots_from_a_volume_shows_no_image(cloud: ComputeCloud) -> None:
    server_id, volume_id = await make_booted(cloud)
    await rebuild_well(cloud, server_id)
    assert (await cloud.server(server_id))["image"] == ""
    assert (await volume(cloud, volume_id))["bootable"] == "true"
