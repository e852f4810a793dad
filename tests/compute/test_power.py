"""Stopping, starting and rebooting."""

from __future__ import annotations

import pytest

from mooring.compute.hosts.loops import heal_servers
from mooring.errors import Conflict
from tests.compute.yard import Yard

pytestmark = pytest.mark.anyio


async def state(yard: Yard, server_id: str) -> tuple[str, str | None, int]:
    server = await yard.server(server_id)
    task = server["OS-EXT-STS:task_state"]
    return server["status"], task, server["OS-EXT-STS:power_state"]


async def guest_state(yard: Yard, server_id: str) -> str:
    guest = await yard.agents["host1"].show_server(server_id)
    return guest.state if guest else "none"


async def test_stop_and_start_switch_the_guest(yard: Yard) -> None:
    server_id = await yard.make_server()
    assert await yard.act(server_id, "os-stop") == 202
    await yard.settle()
    assert await state(yard, server_id) == ("SHUTOFF", None, 4)
    assert await guest_state(yard, server_id) == "stopped"
    assert await yard.act(server_id, "os-start") == 202
    await yard.settle()
    assert await state(yard, server_id) == ("ACTIVE", None, 1)
    assert await guest_state(yard, server_id) == "running"
    assert [action for action, _ in await yard.actions(server_id)] == ["create", "stop", "start"]


async def test_wrong_state_is_409_in_openstacks_words(yard: Yard) -> None:
    server_id = await yard.make_server()
    answer = await yard.ask("POST", f"/servers/{server_id}/action", {"os-start": None})
    assert answer.status_code == 409
    assert f"Cannot 'start' instance {server_id} while it is in vm_state active" in answer.text


async def test_second_stop_while_the_first_runs_is_409(yard: Yard) -> None:
    server_id = await yard.make_server()
    yard.hypervisor().knobs.hold("power_off")
    assert await yard.act(server_id, "os-stop") == 202
    answer = await yard.ask("POST", f"/servers/{server_id}/action", {"os-stop": None})
    assert answer.status_code == 409
    assert "task_state powering-off" in answer.text
    yard.hypervisor().knobs.release("power_off")
    await yard.settle()


async def test_reboots_end_in_active(yard: Yard) -> None:
    server_id = await yard.make_server()
    assert await yard.act(server_id, "reboot", {"type": "SOFT"}) == 202
    await yard.settle()
    assert await state(yard, server_id) == ("ACTIVE", None, 1)
    await yard.act(server_id, "os-stop")
    await yard.settle()
    assert await yard.act(server_id, "reboot", {"type": "SOFT"}) == 409
    assert await yard.act(server_id, "reboot", {"type": "HARD"}) == 202
    await yard.settle()
    assert await state(yard, server_id) == ("ACTIVE", None, 1)


async def test_hard_reboot_takes_the_place_of_a_soft_one(yard: Yard) -> None:
    server_id = await yard.make_server()
    yard.hypervisor().knobs.hold("power_off")
    assert await yard.act(server_id, "reboot", {"type": "SOFT"}) == 202
    assert (await state(yard, server_id))[0] == "REBOOT"
    assert await yard.act(server_id, "reboot", {"type": "SOFT"}) == 409
    assert await yard.act(server_id, "reboot", {"type": "HARD"}) == 202
    yard.hypervisor().knobs.release("power_off")
    await yard.settle()
    assert await state(yard, server_id) == ("ACTIVE", None, 1)


async def test_start_and_hard_reboot_keep_the_volumes(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    await yard.attach(server_id, volume_id)
    await yard.settle()
    for action, value in (("os-stop", None), ("os-start", None), ("reboot", {"type": "HARD"})):
        assert await yard.act(server_id, action, value) == 202
        await yard.settle()
        assert await yard.disks(server_id) == [volume_id]
    assert await yard.volume_status(volume_id) == "in-use"


async def test_start_goes_on_without_a_volume_whose_attachment_is_gone(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    await yard.attach(server_id, volume_id)
    await yard.settle()
    await yard.act(server_id, "os-stop")
    await yard.settle()
    attachment_id = (await yard.attachments(server_id))[0]["attachment_id"]
    await yard.compute.volumes.delete_attachment(None, attachment_id)
    await yard.act(server_id, "os-start")
    await yard.settle()
    assert (await state(yard, server_id))[0] == "ACTIVE"
    assert await yard.disks(server_id) == []
    assert await yard.attachments(server_id, "2.1") == []


async def test_failed_start_leaves_the_server_stopped_with_a_failed_action(yard: Yard) -> None:
    server_id = await yard.make_server()
    await yard.act(server_id, "os-stop")
    await yard.settle()
    yard.hypervisor().knobs.fail("power_on", Conflict("No memory."))
    await yard.act(server_id, "os-start")
    await yard.settle()
    assert await state(yard, server_id) == ("SHUTOFF", None, 4)
    assert (await yard.actions(server_id))[-1] == ("start", "Error")


async def test_guest_that_stops_by_itself_makes_its_server_shutoff(yard: Yard) -> None:
    server_id = await yard.make_server()
    await yard.hypervisor().power_off(server_id, 0)
    await heal_servers.heal_once(yard.compute)
    assert await state(yard, server_id) == ("SHUTOFF", None, 4)


async def test_reset_state_ends_what_holds_the_server(yard: Yard) -> None:
    server_id, volume_id = await yard.make_server(), await yard.make_volume()
    yard.hypervisor().knobs.hold("plug")
    await yard.attach(server_id, volume_id)
    path, body = f"/servers/{server_id}/action", {"os-resetState": {"state": "error"}}
    assert (await yard.ask("POST", path, body)).status_code == 403
    asking = await yard.meanwhile(yard.ask("POST", path, body, who="admin"))
    yard.hypervisor().knobs.release("plug")
    assert (await asking).status_code == 202
    await yard.settle()
    assert (await yard.server(server_id))["status"] == "ERROR"
    assert await yard.volume_status(volume_id) == "available"
    await yard.ask("POST", path, {"os-resetState": {"state": "active"}}, who="admin")
    assert (await yard.server(server_id))["status"] == "ACTIVE"
