"""Stopping, starting and rebooting."""

from __future__ import annotations

import pytest

from mooring.compute.hosts.loops import heal_servers
from mooring.errors import Conflict
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio


async def state(cloud: ComputeCloud, server_id: str) -> tuple[str, str | None, int]:
    server = await cloud.server(server_id)
    task = server["OS-EXT-STS:task_state"]
    return server["status"], task, server["OS-EXT-STS:power_state"]


async def guest_state(cloud: ComputeCloud, server_id: str) -> str:
    guest = await cloud.known_agents["host1"].show_server(server_id)
    return guest.state if guest else "none"


async def test_stop_and_start_switch_the_guest(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    assert await cloud.act(server_id, "os-stop") == 202
    await cloud.settle()
    assert await state(cloud, server_id) == ("SHUTOFF", None, 4)
    assert await guest_state(cloud, server_id) == "stopped"
    assert await cloud.act(server_id, "os-start") == 202
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)
    assert await guest_state(cloud, server_id) == "running"
    assert [action for action, _ in await cloud.actions(server_id)] == ["create", "stop", "start"]


async def test_wrong_state_is_409_in_openstacks_words(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    answer = await cloud.ask("POST", f"/servers/{server_id}/action", {"os-start": None})
    assert answer.status == 409
    assert f"Cannot 'start' instance {server_id} while it is in vm_state active" in answer.text


async def test_second_stop_while_the_first_runs_is_409(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    cloud.hypervisor().knobs.hold("power_off")
    assert await cloud.act(server_id, "os-stop") == 202
    answer = await cloud.ask("POST", f"/servers/{server_id}/action", {"os-stop": None})
    assert answer.status == 409
    assert "task_state powering-off" in answer.text
    cloud.hypervisor().knobs.release("power_off")
    await cloud.settle()


async def test_reboots_end_in_active(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    assert await cloud.act(server_id, "reboot", {"type": "SOFT"}) == 202
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)
    await cloud.act(server_id, "os-stop")
    await cloud.settle()
    assert await cloud.act(server_id, "reboot", {"type": "SOFT"}) == 409
    assert await cloud.act(server_id, "reboot", {"type": "HARD"}) == 202
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)


async def test_hard_reboot_takes_the_place_of_a_soft_one(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    cloud.hypervisor().knobs.hold("power_off")
    assert await cloud.act(server_id, "reboot", {"type": "SOFT"}) == 202
    assert (await state(cloud, server_id))[0] == "REBOOT"
    assert await cloud.act(server_id, "reboot", {"type": "SOFT"}) == 409
    assert await cloud.act(server_id, "reboot", {"type": "HARD"}) == 202
    cloud.hypervisor().knobs.release("power_off")
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)


async def test_start_and_hard_reboot_keep_the_volumes(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_attached()
    for action, value in (("os-stop", None), ("os-start", None), ("reboot", {"type": "HARD"})):
        assert await cloud.act(server_id, action, value) == 202
        await cloud.settle()
        assert await cloud.disks(server_id) == [volume_id]
    assert await cloud.volume_status(volume_id) == "in-use"


async def test_start_goes_on_without_a_volume_whose_attachment_is_gone(cloud: ComputeCloud) -> None:
    server_id, _ = await cloud.make_attached()
    await cloud.act(server_id, "os-stop")
    await cloud.settle()
    attachment_id = (await cloud.attachments(server_id))[0]["attachment_id"]
    await cloud.compute.volumes.delete_attachment(None, attachment_id)
    await cloud.act(server_id, "os-start")
    await cloud.settle()
    assert (await state(cloud, server_id))[0] == "ACTIVE"
    assert await cloud.disks(server_id) == []
    assert await cloud.attachments(server_id, "2.1") == []
    assert await cloud.connections("host1") == []
    assert await cloud.complaints() == []


async def test_failed_start_leaves_the_server_stopped_with_a_failed_action(
    cloud: ComputeCloud,
) -> None:
    server_id = await cloud.make_server()
    await cloud.act(server_id, "os-stop")
    await cloud.settle()
    cloud.hypervisor().knobs.fail("power_on", Conflict("No memory."))
    await cloud.act(server_id, "os-start")
    await cloud.settle()
    assert await state(cloud, server_id) == ("SHUTOFF", None, 4)
    assert (await cloud.actions(server_id))[-1] == ("start", "Error")


async def test_guest_that_stops_by_itself_makes_its_server_shutoff(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    await cloud.hypervisor().power_off(server_id, 0)
    await heal_servers.heal_once(cloud.compute)
    assert await state(cloud, server_id) == ("SHUTOFF", None, 4)


async def test_reset_state_ends_what_holds_the_server(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    cloud.hypervisor().knobs.hold("plug")
    await cloud.attach(server_id, volume_id)
    path, body = f"/servers/{server_id}/action", {"os-resetState": {"state": "error"}}
    assert (await cloud.ask("POST", path, body)).status == 403
    asking = await cloud.meanwhile(cloud.ask("POST", path, body, user="admin"))
    cloud.hypervisor().knobs.release("plug")
    assert (await asking).status == 202
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ERROR"
    assert await cloud.volume_status(volume_id) == "available"
    await cloud.ask("POST", path, {"os-resetState": {"state": "active"}}, user="admin")
    assert (await cloud.server(server_id))["status"] == "ACTIVE"


async def test_a_hard_reboot_brings_up_a_guest_that_its_host_has_not_any_more(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await cloud.make_attached()
    hypervisor = cloud.hypervisor()
    await hypervisor.power_off(server_id, 0.0)
    await hypervisor.remove(server_id)
    assert await guest_state(cloud, server_id) == "none"
    assert await cloud.act(server_id, "reboot", {"type": "HARD"}) == 202
    await cloud.settle()
    # Its root disk went, too, and no other one is made in its place.
    assert (await cloud.actions(server_id))[-1][0] == "reboot"
    assert await guest_state(cloud, server_id) == "none"
    root = cloud.hosts["host1"].state_dir / "guests" / server_id / "root"
    root.parent.mkdir(parents=True, exist_ok=True)
    root.touch()
    assert await cloud.act(server_id, "reboot", {"type": "HARD"}) == 202
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)
    guest = await cloud.known_agents["host1"].show_server(server_id)
    assert guest is not None
    assert [disk.volume_id for disk in guest.disks] == [volume_id]
