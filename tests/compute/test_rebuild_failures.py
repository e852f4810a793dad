"""What becomes of a server whose root volume does not get its image (specs 002 and 004)."""

from __future__ import annotations

import pytest

from mooring.errors import Conflict
from tests.compute.rebuilding import (
    NEW,
    Between,
    attachments_of,
    image_of,
    make_booted,
    rebuild,
    rebuild_well,
    state,
    stock,
)
from tests.compute.yard import IMAGE, Yard

pytestmark = pytest.mark.anyio


async def require_as_before(yard: Yard, server_id: str, volume_id: str) -> None:
    """See that the guest runs on its old data, and that the action tells the failure."""
    assert await state(yard, server_id) == ("ACTIVE", None)
    assert (await yard.actions(server_id))[-1] == ("rebuild", "Error")
    assert (await yard.server(server_id))["name"] == "s"
    guest = await yard.agents["host1"].show_server(server_id)
    assert guest is not None
    assert (guest.state, [disk.volume_id for disk in guest.disks]) == ("running", [volume_id])
    shown = (await yard.attachments(server_id))[0]["attachment_id"]
    assert await attachments_of(yard, volume_id) == [(shown, "attached")]
    assert await yard.volume_status(volume_id) == "in-use"
    assert (await image_of(yard, volume_id), yard.driver().content(volume_id)) == (IMAGE, IMAGE)


async def wait_for(yard: Yard, volume_id: str, status: str) -> None:
    for _ in range(400):
        if (await yard.volume_status(volume_id)) == status:
            return
    raise AssertionError(await yard.volume_status(volume_id))


@pytest.mark.parametrize("status", [400, 403, 404, 409, 413])
async def test_a_reimage_that_is_refused_leaves_the_server_as_it_was(
    yard: Yard, status: int
) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard, metadata={"a": "1"})
    Between(yard).answer("POST", "/action os-reimage", status)
    await rebuild_well(yard, server_id, name="other", metadata={"b": "2"})
    await require_as_before(yard, server_id, volume_id)
    assert (await yard.server(server_id))["metadata"] == {"a": "1"}


async def test_a_volume_service_that_always_answers_500_leaves_the_server_as_it_was(
    yard: Yard,
) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    between = Between(yard)
    for _ in range(100):
        between.answer("POST", "/action os-reimage", 500)
    await rebuild_well(yard, server_id)
    await require_as_before(yard, server_id, volume_id)


async def test_a_stopped_server_whose_reimage_is_refused_stays_stopped(yard: Yard) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    await yard.act(server_id, "os-stop")
    await yard.settle()
    Between(yard).answer("POST", "/action os-reimage", 400)
    await rebuild_well(yard, server_id)
    assert await state(yard, server_id) == ("SHUTOFF", None)
    guest = await yard.agents["host1"].show_server(server_id)
    assert guest is not None
    assert guest.state == "stopped"
    assert await yard.volume_status(volume_id) == "in-use"


async def test_an_attachment_that_cannot_be_changed_leaves_the_server_as_it_was(
    yard: Yard,
) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    old = (await yard.attachments(server_id))[0]["attachment_id"]
    for method, path in (("POST", "/attachments"), ("DELETE", f"/attachments/{old}")):
        await yard.look()
        Between(yard).answer(method, path, 400)
        await rebuild_well(yard, server_id)
        await require_as_before(yard, server_id, volume_id)
        assert await attachments_of(yard, volume_id) == [(old, "attached")]


async def test_a_volume_in_error_makes_the_server_error_and_a_rebuild_brings_both_back(
    yard: Yard,
) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    between = Between(yard)
    yard.driver().knobs.fail("replace", Conflict("The disk is broken."))
    await rebuild_well(yard, server_id)
    server = await yard.server(server_id)
    assert server["status"] == "ERROR"
    assert "error" in server["fault"]["message"]
    assert (await yard.actions(server_id))[-1] == ("rebuild", "Error")
    assert await yard.volume_status(volume_id) == "error"
    # The attachment is not given the connector again while the volume is in error.
    assert [one for one in between.seen if one.startswith("PUT")] == []
    assert [word for _, word in await attachments_of(yard, volume_id)] == ["reserved"]
    await yard.look()
    await rebuild_well(yard, server_id)
    assert await state(yard, server_id) == ("ACTIVE", None)
    assert await yard.volume_status(volume_id) == "in-use"
    assert yard.driver().content(volume_id) == NEW
    assert await yard.disks(server_id) == [volume_id]


async def test_at_the_timeout_a_volume_that_is_still_downloading_is_waited_for(
    yard: Yard,
) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    yard.driver().knobs.hold("replace")
    await rebuild(yard, server_id)
    await wait_for(yard, volume_id, "downloading")
    for _ in range(5):
        yard.clock.advance(60)
        assert await yard.volume_status(volume_id) == "downloading"
    assert await state(yard, server_id) == ("REBUILD", "rebuilding")
    yard.driver().knobs.release("replace")
    await yard.settle()
    assert await state(yard, server_id) == ("ACTIVE", None)
    assert await image_of(yard, volume_id) == NEW


async def test_with_another_volume_service_error_is_400_and_names_the_reset(yard: Yard) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    yard.driver().knobs.fail("replace", Conflict("The disk is broken."))
    await rebuild_well(yard, server_id)
    await yard.look()
    between = Between(yard)
    between.answer("DELETE", ".look", 404)
    answer = await rebuild(yard, server_id)
    assert answer.status_code == 400
    assert "reset its status to reserved" in answer.text
    reset = {"os-reset_status": {"status": "reserved"}}
    await yard.volume_api("POST", f"/volumes/{volume_id}/action", reset, who="admin")
    await rebuild_well(yard, server_id)
    assert await state(yard, server_id) == ("ACTIVE", None)
    assert await image_of(yard, volume_id) == NEW


@pytest.mark.parametrize("image", [NEW, IMAGE])
async def test_a_type_that_keeps_the_data_gives_the_server_back(yard: Yard, image: str) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    types = (await yard.volume_api("GET", "/types", who="admin"))["volume_types"]
    for one in types:
        path, specs = f"/types/{one['id']}/extra_specs", {"reimage_keep_snapshot": "true"}
        await yard.volume_api("POST", path, {"extra_specs": specs}, who="admin")
    yard.driver().knobs.fail("replace", Conflict("The disk is broken."))
    await rebuild_well(yard, server_id, image)
    await require_as_before(yard, server_id, volume_id)
    await yard.look()
    await rebuild_well(yard, server_id, image)
    assert (await yard.actions(server_id))[-1] == ("rebuild", None)


async def test_a_guest_that_cannot_start_leaves_an_error_that_a_rebuild_mends(yard: Yard) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    yard.hypervisor().knobs.fail("power_on", Conflict("No memory."))
    await rebuild_well(yard, server_id)
    server = await yard.server(server_id)
    assert (server["status"], server["fault"]["message"]) == ("ERROR", "No memory.")
    assert await yard.volume_status(volume_id) == "in-use"
    await yard.look()
    await rebuild_well(yard, server_id)
    assert await state(yard, server_id) == ("ACTIVE", None)
    assert await yard.volume_status(volume_id) == "in-use"


async def test_keeping_the_data_also_brings_a_reserved_root_back(yard: Yard) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    yard.driver().knobs.fail("replace", Conflict("The disk is broken."))
    await rebuild_well(yard, server_id)
    reset = {"os-reset_status": {"status": "reserved"}}
    await yard.volume_api("POST", f"/volumes/{volume_id}/action", reset, who="admin")
    await yard.look()
    await rebuild_well(yard, server_id, IMAGE, reimage_boot_volume=False)
    assert await state(yard, server_id) == ("ACTIVE", None)
    assert await yard.volume_status(volume_id) == "in-use"
    assert await image_of(yard, volume_id) == IMAGE


async def test_deleting_the_server_ends_its_rebuild_and_frees_the_volume(yard: Yard) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    yard.driver().knobs.hold("replace")
    await rebuild(yard, server_id)
    await wait_for(yard, volume_id, "downloading")
    assert (await yard.ask("DELETE", f"/servers/{server_id}")).status_code == 204
    yard.driver().knobs.release("replace")
    await yard.settle()
    assert (await yard.server(server_id))["status"] == "gone"
    assert await yard.volume_status(volume_id) == "available"
    assert await attachments_of(yard, volume_id) == []


async def test_attach_and_detach_are_409_while_a_server_is_rebuilt(yard: Yard) -> None:
    stock(yard)
    server_id, volume_id = await make_booted(yard)
    data, other = await yard.make_volume(), await yard.make_volume()
    await yard.attach(server_id, data)
    await yard.settle()
    yard.driver().knobs.hold("replace")
    await rebuild(yard, server_id)
    await wait_for(yard, volume_id, "downloading")
    assert (await yard.attach(server_id, other)).status_code == 409
    assert (await yard.detach(server_id, data)).status_code == 409
    yard.driver().knobs.release("replace")
    await yard.settle()
    assert await state(yard, server_id) == ("ACTIVE", None)
