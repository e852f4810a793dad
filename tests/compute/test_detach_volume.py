"""Detaching a volume: refused, done, and failed before or after the guest let go."""

from __future__ import annotations

import pytest

from mooring.errors import Conflict
from tests.compute.cloud import ComputeCloud
from tests.compute.elsewhere import events

pytestmark = pytest.mark.anyio


async def attached(cloud: ComputeCloud) -> tuple[str, str]:
    server_id, volume_id = await cloud.make_attached()
    return server_id, volume_id


async def test_detached_volume_is_available_and_unknown_to_the_server(cloud: ComputeCloud) -> None:
    server_id, volume_id = await attached(cloud)
    answer = await cloud.detach(server_id, volume_id)
    assert (answer.status, answer.content) == (202, b"")
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "available"
    assert await cloud.attachments(server_id, "2.1") == []
    assert (await cloud.disks(server_id), await cloud.connections()) == ([], [])
    assert (await cloud.actions(server_id))[-1] == ("detach_volume", None)


async def test_detach_takes_at_most_ten_commits(any_cloud: ComputeCloud) -> None:
    cloud = any_cloud
    server_id, volume_id = await attached(cloud)
    before = sum(store.commits for store in cloud.stores.values())
    await cloud.detach(server_id, volume_id)
    await cloud.settle()
    assert sum(store.commits for store in cloud.stores.values()) - before <= 10


async def test_second_detach_while_the_first_runs_is_400(cloud: ComputeCloud) -> None:
    server_id, volume_id = await attached(cloud)
    cloud.hypervisor().knobs.hold("unplug")
    assert (await cloud.detach(server_id, volume_id)).status == 202
    assert await cloud.volume_status(volume_id) == "detaching"
    assert (await cloud.detach(server_id, volume_id)).status == 400
    cloud.hypervisor().knobs.release("unplug")
    await cloud.settle()
    assert (await cloud.detach(server_id, volume_id)).status == 404
    assert await cloud.volume_status(volume_id) == "available"


async def test_detach_of_what_is_not_attached_is_404(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    nobody = "11111111-1111-1111-1111-111111111111"
    assert (await cloud.detach(server_id, volume_id)).status == 404
    assert (await cloud.detach(nobody, volume_id)).status == 404
    assert (await cloud.detach(server_id, nobody)).status == 404


async def test_detach_that_the_volume_service_refuses_is_400_without_a_trace(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await attached(cloud)
    await cloud.volume_api("POST", f"/volumes/{volume_id}/action", {"os-begin_detaching": None})
    before = await cloud.actions(server_id)
    refused = await cloud.detach(server_id, volume_id)
    assert refused.status == 400
    assert refused.fault == (
        f"Invalid volume: volume {volume_id} is detaching; only one that is in-use and attached "
        "can be detached. Nothing was changed; look at it again."
    )
    assert await cloud.volume_status(volume_id) == "detaching"
    assert await cloud.actions(server_id) == before
    assert await cloud.disks(server_id) == [volume_id]


async def test_root_volume_stays(cloud: ComputeCloud) -> None:
    volume_id = await cloud.make_volume(bootable=True)
    server_id = await cloud.make_server(
        imageRef="",
        block_device_mapping_v2=[
            {
                "source_type": "volume",
                "destination_type": "volume",
                "uuid": volume_id,
                "boot_index": 0,
            }
        ],
    )
    answer = await cloud.detach(server_id, volume_id)
    assert answer.status == 400
    assert "root device" in answer.text


async def test_guest_that_keeps_the_disk_keeps_the_volume(cloud: ComputeCloud) -> None:
    server_id, volume_id = await attached(cloud)
    cloud.hypervisor().knobs.fail("unplug", Conflict("The guest does not let go."))
    await cloud.detach(server_id, volume_id)
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "in-use"
    assert await cloud.disks(server_id) == [volume_id]
    assert len(await cloud.attachments(server_id)) == 1
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert (await cloud.actions(server_id))[-1] == ("detach_volume", "Error")
    [*_, (_, _, details)] = await events(cloud, server_id)
    assert str(details).startswith(f"Volume {volume_id} stays attached, as it was. ")
    assert (await cloud.detach(server_id, volume_id)).status == 202
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "available"


async def test_failure_after_the_guest_let_go_is_error_until_the_clean_up_is_done(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await attached(cloud)
    driver = cloud.driver()
    driver.knobs.fail("unexport", Conflict("The export is in use."), times=6)
    await cloud.detach(server_id, volume_id)
    await cloud.compute.sagas.settle(1.0)
    sick = await cloud.server(server_id)
    assert sick["status"] == "ERROR"
    assert "fault" in sick
    assert await cloud.volume_status(volume_id) == "in-use"
    assert len(await cloud.attachments(server_id)) == 1
    assert await cloud.disks(server_id) == []
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await cloud.volume_status(volume_id) == "available"
    assert await cloud.attachments(server_id, "2.1") == []


async def test_hard_reboot_starts_the_clean_up_at_once_and_keeps_the_attachment(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await attached(cloud)
    driver = cloud.driver()
    driver.knobs.fail("unexport", Conflict("The export is in use."), times=4)
    await cloud.detach(server_id, volume_id)
    await cloud.compute.sagas.settle(1.0)
    assert (await cloud.server(server_id))["status"] == "ERROR"
    driver.knobs.hold("unexport")
    assert await cloud.act(server_id, "reboot", {"type": "HARD"}) == 202
    driver.knobs.release("unexport")
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await cloud.disks(server_id) == []
    assert await cloud.volume_status(volume_id) == "available"


async def test_hard_reboot_ends_the_clean_up_of_a_volume_that_a_paused_guest_keeps(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await attached(cloud)
    assert await cloud.act(server_id, "pause") == 202
    await cloud.settle()
    # It lets go of nothing, and its host does not give it the volume again.
    cloud.hypervisor().knobs.fail("plug", Conflict("The guest has no slot left."), times=4)
    await cloud.detach(server_id, volume_id)
    await cloud.settle()
    sick = await cloud.server(server_id)
    assert sick["status"] == "ERROR"
    assert "a hard reboot tries at once" in sick["fault"]["message"]
    assert await cloud.disks(server_id) == [volume_id]
    await cloud.look_at_hosts()
    assert await cloud.act(server_id, "reboot", {"type": "HARD"}) == 202
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await cloud.disks(server_id) == []
    assert await cloud.volume_status(volume_id) == "available"


async def test_host_that_does_not_let_go_after_its_guest_makes_the_server_error(
    cloud: ComputeCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_id, volume_id = await attached(cloud)

    async def refuse(attachment_id: str) -> None:
        del attachment_id
        raise Conflict("The device is in use.")

    with monkeypatch.context() as refusing:
        refusing.setattr(cloud.agents["host1"].agent.connections, "disconnect", refuse)
        await cloud.detach(server_id, volume_id)
        await cloud.compute.sagas.settle(1.0)
    sick = await cloud.server(server_id)
    assert sick["status"] == "ERROR"
    assert sick["fault"]["message"] == (
        f"The server is in ERROR until volume {volume_id} is taken from it, which goes on by "
        "itself; a hard reboot tries at once. On host1 it failed: The device is in use."
    )
    assert await cloud.volume_status(volume_id) == "in-use"
    assert len(await cloud.attachments(server_id)) == 1
    assert (await cloud.disks(server_id), await cloud.connections()) == ([], [volume_id])
    assert (await cloud.actions(server_id))[-1] == ("detach_volume", "Error")
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await cloud.volume_status(volume_id) == "available"
    assert (await cloud.attachments(server_id), await cloud.connections()) == ([], [])


async def test_host_that_is_silent_for_long_makes_the_server_error(cloud: ComputeCloud) -> None:
    server_id, volume_id = await attached(cloud)
    cloud.silent = ("", "/servers/")
    await cloud.detach(server_id, volume_id)
    await cloud.compute.sagas.settle(10.0)
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    await cloud.compute.sagas.settle(1800.0)
    assert (await cloud.server(server_id))["status"] == "ERROR"
    assert await cloud.volume_status(volume_id) == "in-use"
    cloud.silent = None
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await cloud.volume_status(volume_id) == "available"


async def test_volume_without_attachment_id_leaves_by_the_old_calls(cloud: ComputeCloud) -> None:
    server_id, new_id = await attached(cloud)
    old_id = await cloud.make_volume()
    await cloud.make_legacy(server_id, old_id)
    assert [shown["volumeId"] for shown in await cloud.attachments(server_id)] == [new_id]
    for volume_id in (old_id, new_id):
        assert (await cloud.detach(server_id, volume_id)).status == 202
        await cloud.settle()
        assert await cloud.volume_status(volume_id) == "available"
    assert (await cloud.disks(server_id), await cloud.connections()) == ([], [])
