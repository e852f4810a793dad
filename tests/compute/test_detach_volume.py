"""Detaching a volume: refused, done, and failed before or after the guest let go."""

from __future__ import annotations

import pytest

from mooring.errors import Conflict
from tests.compute.yard import Yard

pytestmark = pytest.mark.anyio


async def attached(yard: Yard) -> tuple[str, str]:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    await yard.attach(server_id, volume_id)
    await yard.settle()
    return server_id, volume_id


async def test_detached_volume_is_available_and_unknown_to_the_server(yard: Yard) -> None:
    server_id, volume_id = await attached(yard)
    answer = await yard.detach(server_id, volume_id)
    assert (answer.status_code, answer.content) == (202, b"")
    await yard.settle()
    assert await yard.volume_status(volume_id) == "available"
    assert await yard.attachments(server_id, "2.1") == []
    assert (await yard.disks(server_id), await yard.connections()) == ([], [])
    assert (await yard.actions(server_id))[-1] == ("detach_volume", None)


async def test_detach_takes_at_most_sixteen_commits(yard: Yard) -> None:
    server_id, volume_id = await attached(yard)
    before = sum(store.commits for store in yard.stores.values())
    await yard.detach(server_id, volume_id)
    await yard.settle()
    assert sum(store.commits for store in yard.stores.values()) - before <= 16


async def test_second_detach_while_the_first_runs_is_400(yard: Yard) -> None:
    server_id, volume_id = await attached(yard)
    yard.hypervisor().knobs.hold("unplug")
    assert (await yard.detach(server_id, volume_id)).status_code == 202
    assert await yard.volume_status(volume_id) == "detaching"
    assert (await yard.detach(server_id, volume_id)).status_code == 400
    yard.hypervisor().knobs.release("unplug")
    await yard.settle()
    assert (await yard.detach(server_id, volume_id)).status_code == 404
    assert await yard.volume_status(volume_id) == "available"


async def test_detach_of_what_is_not_attached_is_404(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    nobody = "11111111-1111-1111-1111-111111111111"
    assert (await yard.detach(server_id, volume_id)).status_code == 404
    assert (await yard.detach(nobody, volume_id)).status_code == 404
    assert (await yard.detach(server_id, nobody)).status_code == 404


async def test_detach_that_the_volume_service_refuses_is_400_without_a_trace(yard: Yard) -> None:
    server_id, volume_id = await attached(yard)
    await yard.volume_api("POST", f"/volumes/{volume_id}/action", {"os-begin_detaching": None})
    before = await yard.actions(server_id)
    assert (await yard.detach(server_id, volume_id)).status_code == 400
    assert await yard.volume_status(volume_id) == "detaching"
    assert await yard.actions(server_id) == before
    assert await yard.disks(server_id) == [volume_id]


async def test_root_volume_stays(yard: Yard) -> None:
    volume_id = await yard.make_volume(bootable=True)
    server_id = await yard.make_server(
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
    answer = await yard.detach(server_id, volume_id)
    assert answer.status_code == 400
    assert "root device" in answer.text


async def test_guest_that_keeps_the_disk_keeps_the_volume(yard: Yard) -> None:
    server_id, volume_id = await attached(yard)
    yard.hypervisor().knobs.fail("unplug", Conflict("The guest does not let go."))
    await yard.detach(server_id, volume_id)
    await yard.settle()
    assert await yard.volume_status(volume_id) == "in-use"
    assert await yard.disks(server_id) == [volume_id]
    assert len(await yard.attachments(server_id)) == 1
    assert (await yard.server(server_id))["status"] == "ACTIVE"
    assert (await yard.actions(server_id))[-1] == ("detach_volume", "Error")
    assert (await yard.detach(server_id, volume_id)).status_code == 202
    await yard.settle()
    assert await yard.volume_status(volume_id) == "available"


async def test_failure_after_the_guest_let_go_is_error_until_the_clean_up_is_done(
    yard: Yard,
) -> None:
    server_id, volume_id = await attached(yard)
    driver = yard.driver()
    driver.knobs.fail("unexport", Conflict("The export is in use."), times=6)
    await yard.detach(server_id, volume_id)
    await yard.compute.sagas.settle(1.0)
    sick = await yard.server(server_id)
    assert sick["status"] == "ERROR"
    assert "fault" in sick
    assert await yard.volume_status(volume_id) == "in-use"
    assert len(await yard.attachments(server_id)) == 1
    assert await yard.disks(server_id) == []
    await yard.settle()
    assert (await yard.server(server_id))["status"] == "ACTIVE"
    assert await yard.volume_status(volume_id) == "available"
    assert await yard.attachments(server_id, "2.1") == []


async def test_hard_reboot_starts_the_clean_up_at_once_and_keeps_the_attachment(
    yard: Yard,
) -> None:
    server_id, volume_id = await attached(yard)
    driver = yard.driver()
    driver.knobs.fail("unexport", Conflict("The export is in use."), times=4)
    await yard.detach(server_id, volume_id)
    await yard.compute.sagas.settle(1.0)
    assert (await yard.server(server_id))["status"] == "ERROR"
    driver.knobs.hold("unexport")
    assert await yard.act(server_id, "reboot", {"type": "HARD"}) == 202
    driver.knobs.release("unexport")
    await yard.settle()
    assert (await yard.server(server_id))["status"] == "ACTIVE"
    assert await yard.disks(server_id) == []
    assert await yard.volume_status(volume_id) == "available"


async def test_host_that_does_not_let_go_after_its_guest_makes_the_server_error(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    server_id, volume_id = await attached(yard)

    async def refuse(attachment_id: str) -> None:
        del attachment_id
        raise Conflict("The device is in use.")

    with monkeypatch.context() as refusing:
        refusing.setattr(yard.running["host1"].agent.connections, "disconnect", refuse)
        await yard.detach(server_id, volume_id)
        await yard.compute.sagas.settle(1.0)
    sick = await yard.server(server_id)
    assert (sick["status"], sick["fault"]["message"]) == ("ERROR", "The device is in use.")
    assert await yard.volume_status(volume_id) == "in-use"
    assert len(await yard.attachments(server_id)) == 1
    assert (await yard.disks(server_id), await yard.connections()) == ([], [volume_id])
    assert (await yard.actions(server_id))[-1] == ("detach_volume", "Error")
    await yard.settle()
    assert (await yard.server(server_id))["status"] == "ACTIVE"
    assert await yard.volume_status(volume_id) == "available"
    assert (await yard.attachments(server_id), await yard.connections()) == ([], [])


async def test_host_that_is_silent_for_long_makes_the_server_error(yard: Yard) -> None:
    server_id, volume_id = await attached(yard)
    yard.silent = ("", "/servers/")
    await yard.detach(server_id, volume_id)
    await yard.compute.sagas.settle(10.0)
    assert (await yard.server(server_id))["status"] == "ACTIVE"
    await yard.compute.sagas.settle(1800.0)
    assert (await yard.server(server_id))["status"] == "ERROR"
    assert await yard.volume_status(volume_id) == "in-use"
    yard.silent = None
    await yard.settle()
    assert (await yard.server(server_id))["status"] == "ACTIVE"
    assert await yard.volume_status(volume_id) == "available"


async def test_volume_without_attachment_id_leaves_by_the_old_calls(yard: Yard) -> None:
    server_id, new_id = await attached(yard)
    old_id = await yard.make_volume()
    await yard.make_legacy(server_id, old_id)
    assert [shown["volumeId"] for shown in await yard.attachments(server_id)] == [new_id]
    for volume_id in (old_id, new_id):
        assert (await yard.detach(server_id, volume_id)).status_code == 202
        await yard.settle()
        assert await yard.volume_status(volume_id) == "available"
    assert (await yard.disks(server_id), await yard.connections()) == ([], [])
