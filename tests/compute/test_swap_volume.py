"""Swapping a volume for another one: what is refused, and what is done."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from mooring.agent.world import Written
from tests.compute.cloud import ComputeCloud
from tests.compute.swapping import GIB, Stand, prepare, swap

pytestmark = pytest.mark.anyio
NOBODY = "11111111-1111-1111-1111-111111111111"


# -- done --------------------------------------------------------------------------------------


async def test_the_new_volume_takes_the_place_of_the_old_one(any_cloud: ComputeCloud) -> None:
    cloud = any_cloud
    ids = server_id, _, _ = await prepare(cloud)
    before = (await cloud.attachments(server_id))[0]
    answer = await swap(cloud, *ids)
    assert (answer.status, answer.content) == (202, b"")
    await cloud.settle()
    await Stand(cloud, ids).check_done()
    after = (await cloud.attachments(server_id))[0]
    assert after["bdm_uuid"] == before["bdm_uuid"]
    assert after["attachment_id"] != before["attachment_id"]


async def test_both_volumes_get_what_the_guest_writes_until_it_is_switched(
    cloud: ComputeCloud,
) -> None:
    server_id, old, new = await prepare(cloud)
    await swap(cloud, server_id, old, new)
    await cloud.settle()
    spans: dict[str, list[Written]] = {old: [], new: []}
    for span in cloud.hypervisor().ledger():
        if span.volume_id in spans:
            spans[span.volume_id].append(span)
    (of_old,), (of_new,) = spans[old], spans[new]
    assert of_old.until is not None
    assert of_new.since <= of_old.until
    assert of_new.until is None


async def test_how_much_is_copied_is_shown(cloud: ComputeCloud) -> None:
    server_id, old, new = await prepare(cloud)
    cloud.hypervisor().lagging.add(new)
    assert (await swap(cloud, server_id, old, new)).status == 202
    await cloud.compute.sagas.settle(3.0)
    listed = await cloud.ask("GET", "/mooring/operations", user="admin")
    (going_on,) = listed.body["operations"]
    assert (going_on["name"], going_on["progress"]) == ("compute.swap_volume", 50)
    cloud.hypervisor().lagging.clear()
    await cloud.settle()
    await Stand(cloud, (server_id, old, new)).check_done()


async def test_what_is_asked_of_the_volume_service_meanwhile(cloud: ComputeCloud) -> None:
    server_id, old, new = await prepare(cloud)
    cloud.hypervisor().lagging.add(new)
    assert (await swap(cloud, server_id, old, new)).status == 202
    assert await cloud.volume_status(old) == "detaching"
    await cloud.compute.sagas.settle(3.0)
    assert await cloud.volume_status(new) == "attaching"
    assert await cloud.disks(server_id) == [old]
    # The delete guard finds the new volume at the server, too.
    assert len(await cloud.attachments(server_id)) == 2
    cloud.hypervisor().lagging.clear()
    await cloud.settle()
    await Stand(cloud, (server_id, old, new)).check_done()


async def test_a_server_has_no_disk_more_while_its_volume_is_swapped(cloud: ComputeCloud) -> None:
    server_id, old, new = await prepare(cloud)
    third, fourth = await cloud.make_volume(), await cloud.make_volume()
    cloud.compute.settings = replace(cloud.compute.settings, max_disks=3)
    cloud.hypervisor().lagging.add(new)
    await swap(cloud, server_id, old, new)
    assert (await cloud.attach(server_id, third)).status == 200
    assert (await cloud.attach(server_id, fourth)).status == 403
    cloud.hypervisor().lagging.clear()
    await cloud.settle()
    assert await cloud.disks(server_id) == [new, third]


async def test_a_larger_volume_is_seen_by_the_guest(cloud: ComputeCloud) -> None:
    ids = server_id, old, new = await prepare(cloud, 2)
    await swap(cloud, *ids)
    await cloud.settle()
    await Stand(cloud, ids).check_done()
    size = await cloud.known_agents["host1"].show_disk_size(server_id, new)
    assert (size.guest_bytes, size.image_bytes) == (2 * GIB, 2 * GIB)
    assert f"disk vdb {2 * GIB} bytes serial={old[:20]}" in await console(cloud, server_id)
    # The next start calls the disk by its own name.
    await cloud.act(server_id, "reboot", {"type": "HARD"})
    await cloud.settle()
    assert f"disk vdb {2 * GIB} bytes serial={new[:20]}" in await console(cloud, server_id)


async def console(cloud: ComputeCloud, server_id: str) -> str:
    return await cloud.hypervisor().console(server_id, None)


async def test_a_swapped_volume_is_swapped_back_detached_and_deleted(cloud: ComputeCloud) -> None:
    ids = server_id, old, new = await prepare(cloud)
    await swap(cloud, *ids)
    await cloud.settle()
    assert (await swap(cloud, server_id, new, old)).status == 202
    await cloud.settle()
    await Stand(cloud, ids).check(old, new)
    assert (await cloud.detach(server_id, old)).status == 202
    await cloud.settle()
    assert await cloud.disks(server_id) == []
    for volume_id in (old, new):
        assert await cloud.volume_status(volume_id) == "available"


async def test_a_paused_server_is_swapped(cloud: ComputeCloud) -> None:
    ids = server_id, _, _ = await prepare(cloud)
    await cloud.act(server_id, "pause")
    await cloud.settle()
    assert (await swap(cloud, *ids)).status == 202
    await cloud.settle()
    stand = Stand(cloud, ids)
    await stand.check(stand.new, stand.old, "PAUSED")


async def test_a_root_volume_is_swapped_and_booted_from(cloud: ComputeCloud) -> None:
    old, new = await cloud.make_volume(bootable=True), await cloud.make_volume(bootable=True)
    disk = {"source_type": "volume", "destination_type": "volume", "uuid": old, "boot_index": 0}
    server_id = await cloud.make_server(imageRef="", block_device_mapping_v2=[disk])
    assert (await swap(cloud, server_id, old, new)).status == 202
    await cloud.settle()
    await cloud.act(server_id, "reboot", {"type": "HARD"})
    await cloud.settle()
    guest = await cloud.known_agents["host1"].show_server(server_id)
    assert guest is not None
    assert [(one.volume_id, one.boot_index) for one in guest.disks] == [(new, 0)]
    assert await cloud.volume_status(old) == "available"


async def test_a_volume_of_the_old_calls_is_swapped_for_one_with_an_attachment(
    cloud: ComputeCloud,
) -> None:
    server_id = await cloud.make_server()
    old, new = await cloud.make_volume(), await cloud.make_volume()
    await cloud.make_legacy(server_id, old)
    assert (await swap(cloud, server_id, old, new)).status == 202
    await cloud.settle()
    assert await cloud.disks(server_id) == [new]
    assert await cloud.connections() == [new]
    assert [await cloud.volume_status(one) for one in (old, new)] == ["available", "in-use"]
    assert (await cloud.attachments(server_id))[0]["attachment_id"]


async def test_the_flag_is_changed_first_and_stays_with_the_disk(cloud: ComputeCloud) -> None:
    ids = server_id, old, new = await prepare(cloud)
    more = {"delete_on_termination": True}
    assert (await swap(cloud, *ids, version="2.85", more=more)).status == 202
    await cloud.settle()
    await Stand(cloud, ids).check_done()
    assert (await cloud.attachments(server_id))[0]["delete_on_termination"] is True
    await cloud.ask("DELETE", f"/servers/{server_id}")
    await cloud.settle()
    assert await cloud.volume_status(new) == "gone"
    assert await cloud.volume_status(old) == "available"


async def test_a_server_that_goes_takes_the_flag_of_the_old_volume_alone(
    cloud: ComputeCloud,
) -> None:
    server_id, old, new = await prepare(cloud)
    cloud.hypervisor().lagging.add(new)
    more = {"delete_on_termination": True}
    await swap(cloud, server_id, old, new, version="2.85", more=more)
    await cloud.ask("DELETE", f"/servers/{server_id}")
    await cloud.settle()
    assert await cloud.volume_status(old) == "gone"
    assert await cloud.volume_status(new) == "available"


async def test_what_a_migration_left_behind_keeps_no_volume_from_being_swapped(
    cloud: ComputeCloud,
) -> None:
    ids = _, old, _ = await prepare(cloud)
    status = {"os-reset_status": {"migration_status": "success"}}
    await cloud.volume_api("POST", f"/volumes/{old}/action", status, user="admin")
    assert (await swap(cloud, *ids)).status == 202
    await cloud.settle()
    await Stand(cloud, ids).check_done()


# -- refused -----------------------------------------------------------------------------------


async def test_members_may_not_swap(cloud: ComputeCloud) -> None:
    ids = await prepare(cloud)
    for version in ("2.1", "2.85"):
        assert (await swap(cloud, *ids, user="member", version=version)).status == 403


async def test_services_may_swap(cloud: ComputeCloud) -> None:
    ids = await prepare(cloud)
    assert (await swap(cloud, *ids, user="compute")).status == 202
    await cloud.settle()
    await Stand(cloud, ids).check_done()


async def refused(cloud: ComputeCloud, ids: tuple[str, str, str], code: int, words: str) -> None:
    """See that a swap is refused and leaves nothing."""
    server_id, old, new = ids
    before = await cloud.actions(server_id), await cloud.attachments(server_id)
    states = [await cloud.volume_status(one) for one in (old, new)]
    answer = await swap(cloud, *ids)
    assert (answer.status, words in answer.text) == (code, True), answer.text
    await cloud.settle()
    assert (await cloud.actions(server_id), await cloud.attachments(server_id)) == before
    assert [await cloud.volume_status(one) for one in (old, new)] == states


async def test_what_is_missing_is_404_in_the_path_and_400_in_the_body(cloud: ComputeCloud) -> None:
    server_id, old, new = await prepare(cloud)
    await refused(cloud, (server_id, NOBODY, new), 404, NOBODY)
    await refused(cloud, (server_id, old, NOBODY), 400, NOBODY)
    assert (await swap(cloud, NOBODY, old, new)).status == 404


async def test_a_volume_that_is_not_attached_is_400_and_404_from_2_85_on(
    cloud: ComputeCloud,
) -> None:
    server_id, old, new = await prepare(cloud)
    other = await cloud.make_server()
    await refused(cloud, (other, old, new), 400, "is not attached to server")
    assert (await swap(cloud, other, old, new, version="2.85")).status == 404
    await refused(cloud, (server_id, new, old), 400, "not in-use")


async def test_a_new_volume_that_is_not_available_is_400(cloud: ComputeCloud) -> None:
    server_id, old, new = await prepare(cloud)
    await cloud.volume_api("POST", f"/volumes/{new}/action", {"os-reserve": None}, user="compute")
    await refused(cloud, (server_id, old, new), 400, "attaching, not available")
    await refused(cloud, (server_id, old, old), 400, "in-use, not available")


async def test_a_smaller_volume_is_400(cloud: ComputeCloud) -> None:
    server_id, old = await cloud.make_server(), await cloud.make_volume(2)
    await cloud.attach(server_id, old)
    await cloud.settle()
    await refused(cloud, (server_id, old, await cloud.make_volume(1)), 400, "must not be smaller")


async def test_a_volume_that_servers_share_is_never_swapped(cloud: ComputeCloud) -> None:
    server_id, old, _ = await prepare(cloud)
    shared = await cloud.make_shared_volume()
    await refused(cloud, (server_id, old, shared), 400, "multiattach")
    await cloud.attach(server_id, shared)
    await cloud.settle()
    await refused(cloud, (server_id, shared, await cloud.make_volume()), 400, "multiattach")


async def test_a_read_only_volume_is_nothing_to_copy_to(cloud: ComputeCloud) -> None:
    ids = _, _, new = await prepare(cloud)
    flag = {"os-update_readonly_flag": {"readonly": True}}
    await cloud.volume_api("POST", f"/volumes/{new}/action", flag)
    await refused(cloud, ids, 400, "read-only")


async def test_a_volume_of_another_project_is_400(cloud: ComputeCloud) -> None:
    server_id, old, _ = await prepare(cloud)
    body = {"volume": {"size": 1}}
    foreign = (await cloud.volume_api("POST", "/volumes", body, user="stranger"))["volume"]["id"]
    await cloud.settle()
    answer = await swap(cloud, server_id, old, foreign)
    assert (answer.status, "another project" in answer.text) == (400, True)


@pytest.mark.parametrize("which", [1, 2])
@pytest.mark.parametrize("status", ["migrating", "starting"])
async def test_a_volume_that_is_migrated_is_409(
    cloud: ComputeCloud, which: int, status: str
) -> None:
    ids = await prepare(cloud)
    reset = {"os-reset_status": {"migration_status": status}}
    await cloud.volume_api("POST", f"/volumes/{ids[which]}/action", reset, user="admin")
    await refused(cloud, ids, 409, "is not what it is migrated to")


@pytest.mark.parametrize("action", ["os-stop", "suspend", "shelve"])
async def test_a_server_that_does_not_run_is_409(cloud: ComputeCloud, action: str) -> None:
    old, new = await cloud.make_volume(bootable=True), await cloud.make_volume()
    disk = {"source_type": "volume", "destination_type": "volume", "uuid": old, "boot_index": 0}
    server_id = await cloud.make_server(imageRef="", block_device_mapping_v2=[disk])
    await cloud.act(server_id, action)
    await cloud.settle()
    answer = await swap(cloud, server_id, old, new)
    assert (answer.status, "swap_volume" in answer.text) == (409, True)


async def test_a_lock_keeps_no_administrator_from_a_swap(cloud: ComputeCloud) -> None:
    ids = server_id, _, _ = await prepare(cloud)
    await cloud.act(server_id, "lock")
    assert (await swap(cloud, *ids)).status == 202
    await cloud.settle()
    await Stand(cloud, ids).check_done()


async def test_either_volume_is_held_while_it_is_swapped(cloud: ComputeCloud) -> None:
    server_id, old, new = await prepare(cloud)
    other = await cloud.make_server()
    cloud.hypervisor().lagging.add(new)
    await swap(cloud, server_id, old, new)
    for volume_id in (old, new):
        assert (await cloud.detach(server_id, volume_id)).status == 400
        assert (await cloud.attach(other, volume_id)).status == 400
    assert (await swap(cloud, server_id, old, new)).status == 400
    assert await cloud.act(server_id, "os-stop") == 409
    cloud.hypervisor().lagging.clear()
    await cloud.settle()
    await Stand(cloud, (server_id, old, new)).check_done()
