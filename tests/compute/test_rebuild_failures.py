"""What becomes of a server whose root volume does not get its image (specs 002 and 004)."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mooring.errors import Conflict
from tests.compute.cloud import IMAGE, NEW, ComputeCloud
from tests.compute.rebuilding import (
    Between,
    attachments_of,
    booted_cloud,
    image_of,
    make_booted,
    rebuild,
    rebuild_well,
    state,
    until_volume,
)
from tests.kept import Keeper

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(keeper: Keeper) -> AsyncIterator[ComputeCloud]:
    """One with what `make_booted` makes."""
    async with booted_cloud(keeper) as opened:
        yield opened


async def require_as_before(cloud: ComputeCloud, server_id: str, volume_id: str) -> None:
    """See that the guest runs on its old data, and that the action tells the failure."""
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert (await cloud.actions(server_id))[-1] == ("rebuild", "Error")
    assert (await cloud.server(server_id))["name"] == "s"
    guest = await cloud.known_agents["host1"].show_server(server_id)
    assert guest is not None
    assert (guest.state, [disk.volume_id for disk in guest.disks]) == ("running", [volume_id])
    shown = (await cloud.attachments(server_id))[0]["attachment_id"]
    assert await attachments_of(cloud, volume_id) == [(shown, "attached")]
    assert await cloud.volume_status(volume_id) == "in-use"
    assert (await image_of(cloud, volume_id), cloud.driver().content(volume_id)) == (IMAGE, IMAGE)


@pytest.mark.parametrize("status", [400, 403, 404, 409, 413])
async def test_a_reimage_that_is_refused_leaves_the_server_as_it_was(
    cloud: ComputeCloud, status: int
) -> None:
    server_id, volume_id = await make_booted(cloud, metadata={"a": "1"})
    Between(cloud).answer("POST", "/action os-reimage", status)
    await rebuild_well(cloud, server_id, name="other", metadata={"b": "2"})
    await require_as_before(cloud, server_id, volume_id)
    assert (await cloud.server(server_id))["metadata"] == {"a": "1"}


async def test_a_volume_service_that_always_answers_500_leaves_the_server_as_it_was(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await make_booted(cloud)
    between = Between(cloud)
    for _ in range(100):
        between.answer("POST", "/action os-reimage", 500)
    await rebuild_well(cloud, server_id)
    await require_as_before(cloud, server_id, volume_id)


async def test_a_stopped_server_whose_reimage_is_refused_stays_stopped(cloud: ComputeCloud) -> None:
    server_id, volume_id = await make_booted(cloud)
    await cloud.act(server_id, "os-stop")
    await cloud.settle()
    Between(cloud).answer("POST", "/action os-reimage", 400)
    await rebuild_well(cloud, server_id)
    assert await state(cloud, server_id) == ("SHUTOFF", None)
    guest = await cloud.known_agents["host1"].show_server(server_id)
    assert guest is not None
    assert guest.state == "stopped"
    assert await cloud.volume_status(volume_id) == "in-use"


async def test_a_server_in_error_whose_reimage_is_refused_goes_back_to_error(
    cloud: ComputeCloud,
) -> None:
    """The instance status should go back to what it was."""
    server_id, volume_id = await make_booted(cloud)
    reset = {"os-resetState": {"state": "error"}}
    path = f"/servers/{server_id}/action"
    assert (await cloud.ask("POST", path, reset, user="admin")).status == 202
    Between(cloud).answer("POST", "/action os-reimage", 400)
    await rebuild_well(cloud, server_id, name="other")
    assert await state(cloud, server_id) == ("ERROR", None)
    assert (await cloud.actions(server_id))[-1] == ("rebuild", "Error")
    assert (await cloud.server(server_id))["name"] == "s"
    guest = await cloud.known_agents["host1"].show_server(server_id)
    assert guest is not None
    assert guest.state == "running"
    assert await cloud.volume_status(volume_id) == "in-use"
    await cloud.look_at_hosts()
    await rebuild_well(cloud, server_id)
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert await image_of(cloud, volume_id) == NEW


async def test_an_attachment_that_cannot_be_changed_leaves_the_server_as_it_was(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await make_booted(cloud)
    old = (await cloud.attachments(server_id))[0]["attachment_id"]
    for method, path in (("POST", "/attachments"), ("DELETE", f"/attachments/{old}")):
        await cloud.look_at_hosts()
        Between(cloud).answer(method, path, 400)
        await rebuild_well(cloud, server_id)
        await require_as_before(cloud, server_id, volume_id)
        assert await attachments_of(cloud, volume_id) == [(old, "attached")]


async def test_a_volume_in_error_makes_the_server_error_and_a_rebuild_brings_both_back(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await make_booted(cloud)
    between = Between(cloud)
    cloud.driver().knobs.fail("replace", Conflict("The disk is broken."))
    await rebuild_well(cloud, server_id)
    server = await cloud.server(server_id)
    assert server["status"] == "ERROR"
    assert "error" in server["fault"]["message"]
    assert (await cloud.actions(server_id))[-1] == ("rebuild", "Error")
    assert await cloud.volume_status(volume_id) == "error"
    # The attachment is not given the connector again while the volume is in error.
    assert [one for one in between.seen if one.startswith("PUT")] == []
    assert [word for _, word in await attachments_of(cloud, volume_id)] == ["reserved"]
    await cloud.look_at_hosts()
    await rebuild_well(cloud, server_id)
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert await cloud.volume_status(volume_id) == "in-use"
    assert cloud.driver().content(volume_id) == NEW
    assert await cloud.disks(server_id) == [volume_id]


async def test_at_the_timeout_a_volume_that_is_still_downloading_is_waited_for(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await make_booted(cloud)
    cloud.driver().knobs.hold("replace")
    await rebuild(cloud, server_id)
    await until_volume(cloud, volume_id, "downloading")
    for _ in range(5):
        cloud.clock.advance(60)
        assert await cloud.volume_status(volume_id) == "downloading"
    assert await state(cloud, server_id) == ("REBUILD", "rebuilding")
    cloud.driver().knobs.release("replace")
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert await image_of(cloud, volume_id) == NEW


async def test_with_another_volume_service_error_is_400_and_names_the_reset(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await make_booted(cloud)
    cloud.driver().knobs.fail("replace", Conflict("The disk is broken."))
    await rebuild_well(cloud, server_id)
    await cloud.look_at_hosts()
    between = Between(cloud)
    between.answer("DELETE", ".look", 404)
    answer = await rebuild(cloud, server_id)
    assert answer.status == 400
    assert "reset its status to reserved" in answer.text
    reset = {"os-reset_status": {"status": "reserved"}}
    await cloud.volume_api("POST", f"/volumes/{volume_id}/action", reset, user="admin")
    await rebuild_well(cloud, server_id)
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert await image_of(cloud, volume_id) == NEW


@pytest.mark.parametrize("image", [NEW, IMAGE])
async def test_a_type_that_keeps_the_data_gives_the_server_back(
    cloud: ComputeCloud, image: str
) -> None:
    server_id, volume_id = await make_booted(cloud)
    types = (await cloud.volume_api("GET", "/types", user="admin"))["volume_types"]
    for one in types:
        path, specs = f"/types/{one['id']}/extra_specs", {"reimage_keep_snapshot": "true"}
        await cloud.volume_api("POST", path, {"extra_specs": specs}, user="admin")
    cloud.driver().knobs.fail("replace", Conflict("The disk is broken."))
    await rebuild_well(cloud, server_id, image)
    await require_as_before(cloud, server_id, volume_id)
    await cloud.look_at_hosts()
    await rebuild_well(cloud, server_id, image)
    assert (await cloud.actions(server_id))[-1] == ("rebuild", None)


async def test_a_guest_that_cannot_start_leaves_an_error_that_a_rebuild_mends(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await make_booted(cloud)
    cloud.hypervisor().knobs.fail("power_on", Conflict("No memory."))
    await rebuild_well(cloud, server_id)
    server = await cloud.server(server_id)
    assert server["status"] == "ERROR"
    assert server["fault"]["message"] == (
        "The server is in ERROR on host host1. Once what failed is mended, rebuild it again, or "
        "reboot it hard if only its guest did not start. On host1 it failed: No memory."
    )
    assert await cloud.volume_status(volume_id) == "in-use"
    await cloud.look_at_hosts()
    await rebuild_well(cloud, server_id)
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert await cloud.volume_status(volume_id) == "in-use"


async def test_keeping_the_data_also_brings_a_reserved_root_back(cloud: ComputeCloud) -> None:
    server_id, volume_id = await make_booted(cloud)
    cloud.driver().knobs.fail("replace", Conflict("The disk is broken."))
    await rebuild_well(cloud, server_id)
    reset = {"os-reset_status": {"status": "reserved"}}
    await cloud.volume_api("POST", f"/volumes/{volume_id}/action", reset, user="admin")
    await cloud.look_at_hosts()
    await rebuild_well(cloud, server_id, IMAGE, reimage_boot_volume=False)
    assert await state(cloud, server_id) == ("ACTIVE", None)
    assert await cloud.volume_status(volume_id) == "in-use"
    assert await image_of(cloud, volume_id) == IMAGE


async def test_deleting_the_server_ends_its_rebuild_and_frees_the_volume(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await make_booted(cloud)
    cloud.driver().knobs.hold("replace")
    await rebuild(cloud, server_id)
    await until_volume(cloud, volume_id, "downloading")
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    cloud.driver().knobs.release("replace")
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "gone"
    assert await cloud.volume_status(volume_id) == "available"
    assert await attachments_of(cloud, volume_id) == []


async def test_attach_and_detach_are_409_while_a_server_is_rebuilt(cloud: ComputeCloud) -> None:
    server_id, volume_id = await make_booted(cloud)
    data, other = await cloud.make_volume(), await cloud.make_volume()
    await cloud.attach(server_id, data)
    await cloud.settle()
    cloud.driver().knobs.hold("replace")
    await rebuild(cloud, server_id)
    await until_volume(cloud, volume_id, "downloading")
    assert (await cloud.attach(server_id, other)).status == 409
    assert (await cloud.detach(server_id, data)).status == 409
    cloud.driver().knobs.release("replace")
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None)
