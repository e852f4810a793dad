"""Servers that stand still and go on: paused and suspended ones."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from mooring.compute.hosts.loops import heal_servers
from mooring.errors import Conflict, NoCapacity
from tests.compute.cloud import ComputeCloud
from tests.compute.moving import Moving, server_that_moves
from tests.compute.sharing import SharingCloud
from tests.compute.test_power import guest_state, state

pytestmark = pytest.mark.anyio
HARD = {"type": "HARD"}
STILL = {"pause": ("PAUSED", 3, "paused"), "suspend": ("SUSPENDED", 4, "suspended")}
GOES_ON = {"pause": "unpause", "suspend": "resume"}


async def boots(cloud: ComputeCloud, server_id: str) -> int:
    """Return how often the guest said that it is up."""
    said = await cloud.known_agents["host1"].read_console(server_id)
    return said.count("mooring-guest: up")


async def change(
    cloud: ComputeCloud, server_id: str, action: str, value: Any = None
) -> tuple[str, str | None, int]:
    assert await cloud.act(server_id, action, value) == 202
    await cloud.settle()
    return await state(cloud, server_id)


@pytest.mark.parametrize("action", STILL)
async def test_a_server_stands_still_and_goes_on_where_it_was(
    cloud: ComputeCloud, action: str
) -> None:
    server_id, volume_id = await cloud.make_attached()
    status, power_state, guest = STILL[action]
    assert await change(cloud, server_id, action) == (status, None, power_state)
    assert await guest_state(cloud, server_id) == guest
    assert await change(cloud, server_id, GOES_ON[action]) == ("ACTIVE", None, 1)
    assert await guest_state(cloud, server_id) == "running"
    assert await boots(cloud, server_id) == 1
    assert await cloud.disks(server_id) == [volume_id]
    done = [action for action, _ in await cloud.actions(server_id)]
    assert done[-2:] == [action, GOES_ON[action]]


@pytest.mark.parametrize(
    ("still", "action"),
    [
        *((still, again) for still in STILL for again in STILL),
        *(("pause", action) for action in ("os-stop", "os-start", "resume", "resize", "rebuild")),
        *(("suspend", action) for action in ("os-stop", "os-start", "unpause", "os-migrateLive")),
        *((None, action) for action in GOES_ON.values()),
    ],
)
async def test_what_its_state_does_not_allow_is_409(
    cloud: ComputeCloud, still: str | None, action: str
) -> None:
    server_id = await cloud.make_server()
    if still:
        await change(cloud, server_id, still)
    bodies: dict[str, Any] = {
        "resize": {"flavorRef": "1"},
        "rebuild": {"imageRef": (await cloud.server(server_id))["image"]["id"]},
        "os-migrateLive": {"host": None, "block_migration": "auto"},
    }
    path, body = f"/servers/{server_id}/action", {action: bodies.get(action)}
    answer = await cloud.ask("POST", path, body, user="admin")
    assert answer.status == 409
    vm_state = STILL[still][2] if still else "active"
    assert f"instance {server_id} while it is in vm_state {vm_state}" in answer.text


@pytest.mark.parametrize("action", STILL)
async def test_a_locked_server_stands_as_it_was(cloud: ComputeCloud, action: str) -> None:
    server_id = await cloud.make_server()
    await cloud.act(server_id, "lock")
    assert await cloud.act(server_id, action) == 409
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)
    await cloud.act(server_id, "unlock")
    assert (await change(cloud, server_id, action))[0] == STILL[action][0]


@pytest.mark.parametrize("action", STILL)
async def test_a_server_whose_host_is_down_stands_as_it_was(
    cloud: ComputeCloud, action: str
) -> None:
    server_id = await cloud.make_server()
    cloud.clock.advance(1000.0)
    assert await cloud.act(server_id, action) == 409
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)


@pytest.mark.parametrize("action", STILL)
async def test_a_hard_reboot_of_one_that_stands_still_ends_in_active(
    cloud: ComputeCloud, action: str
) -> None:
    server_id, volume_id = await cloud.make_attached()
    await change(cloud, server_id, action)
    assert await cloud.act(server_id, "reboot", {"type": "SOFT"}) == 409
    assert await change(cloud, server_id, "reboot", HARD) == ("ACTIVE", None, 1)
    assert await boots(cloud, server_id) == 2
    assert await cloud.disks(server_id) == [volume_id]


@pytest.mark.parametrize("action", [*STILL, *GOES_ON.values()])
async def test_a_hard_reboot_takes_the_place_of_one_that_does_not_end(
    cloud: ComputeCloud, action: str
) -> None:
    server_id = await cloud.make_server()
    before = next((still for still, other in GOES_ON.items() if other == action), None)
    if before is not None:
        await change(cloud, server_id, before)
    cloud.hypervisor().knobs.hold(action)
    assert await cloud.act(server_id, action) == 202
    assert await cloud.act(server_id, "reboot", HARD) == 202
    cloud.hypervisor().knobs.release(action)
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)
    assert await guest_state(cloud, server_id) == "running"


@pytest.mark.parametrize("action", STILL)
async def test_one_that_stands_still_is_deleted_with_all_it_has(
    cloud: ComputeCloud, action: str
) -> None:
    server_id, volume_id = await cloud.make_attached()
    await change(cloud, server_id, action)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    assert await guest_state(cloud, server_id) == "none"
    assert await cloud.volume_status(volume_id) == "available"


async def test_a_paused_server_is_given_volumes_and_a_suspended_one_none(
    cloud: ComputeCloud,
) -> None:
    server_id, volume_id = await cloud.make_server(), await cloud.make_volume()
    await change(cloud, server_id, "suspend")
    refused = await cloud.attach(server_id, volume_id)
    assert (refused.status, "vm_state suspended" in refused.text) == (409, True)
    await change(cloud, server_id, "resume")
    await change(cloud, server_id, "pause")
    assert (await cloud.attach(server_id, volume_id)).status in {200, 202}
    await cloud.settle()
    assert await cloud.disks(server_id) == [volume_id]
    assert await state(cloud, server_id) == ("PAUSED", None, 3)
    await change(cloud, server_id, "unpause")
    await change(cloud, server_id, "suspend")
    assert (await cloud.detach(server_id, volume_id)).status == 409
    await change(cloud, server_id, "resume")
    assert await cloud.disks(server_id) == [volume_id]


async def test_a_paused_guest_keeps_a_volume_until_it_runs(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_attached()
    await change(cloud, server_id, "pause")
    assert (await cloud.detach(server_id, volume_id)).status == 202
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "in-use"
    assert (await cloud.actions(server_id))[-1] == ("detach_volume", "Error")
    assert await state(cloud, server_id) == ("PAUSED", None, 3)
    await change(cloud, server_id, "unpause")
    assert (await cloud.detach(server_id, volume_id)).status == 202
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "available"


@pytest.mark.parametrize("action", STILL)
async def test_a_volume_grows_while_its_server_stands_still(
    cloud: ComputeCloud, action: str
) -> None:
    server_id, volume_id = await cloud.make_attached()
    status = (await change(cloud, server_id, action))[0]
    body = {"os-extend": {"new_size": 2}}
    await cloud.volume_api("POST", f"/volumes/{volume_id}/action", body)
    await cloud.settle()
    assert await cloud.volume_status(volume_id) == "in-use"
    assert (await state(cloud, server_id))[0] == status
    # Time has passed for whoever waited.
    await cloud.look_at_hosts()
    await change(cloud, server_id, GOES_ON[action])
    size = await cloud.known_agents["host1"].show_disk_size(server_id, volume_id)
    assert (size.guest_bytes, size.image_bytes) == (2 << 30, 2 << 30)


async def test_a_server_without_room_for_its_memory_runs_on(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    cloud.hypervisor().knobs.fail("suspend", NoCapacity("No room."))
    assert await change(cloud, server_id, "suspend") == ("ACTIVE", None, 1)
    assert (await cloud.actions(server_id))[-1] == ("suspend", "Error")
    assert await guest_state(cloud, server_id) == "running"


async def test_a_server_that_cannot_go_on_stays_suspended(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    await change(cloud, server_id, "suspend")
    cloud.hypervisor().knobs.fail("resume", Conflict("A disk is in use."))
    assert await change(cloud, server_id, "resume") == ("SUSPENDED", None, 4)
    assert (await cloud.actions(server_id))[-1] == ("resume", "Error")
    assert await change(cloud, server_id, "resume") == ("ACTIVE", None, 1)
    assert await boots(cloud, server_id) == 1


async def test_a_suspended_server_is_not_resumed_without_its_volume(cloud: ComputeCloud) -> None:
    server_id, _ = await cloud.make_attached()
    await change(cloud, server_id, "suspend")
    [attachment] = await cloud.attachments(server_id)
    await cloud.compute.volumes.delete_attachment(None, attachment["attachment_id"])
    assert await change(cloud, server_id, "resume") == ("SUSPENDED", None, 4)
    assert (await cloud.actions(server_id))[-1] == ("resume", "Error")
    assert await cloud.attachments(server_id) == [attachment]
    assert await change(cloud, server_id, "reboot", HARD) == ("ACTIVE", None, 1)
    assert await cloud.disks(server_id) == []


@pytest.mark.parametrize("action", STILL)
async def test_a_guest_that_stands_still_is_left_so(cloud: ComputeCloud, action: str) -> None:
    server_id = await cloud.make_server()
    before = await change(cloud, server_id, action)
    await heal_servers.heal_once(cloud.compute)
    assert await state(cloud, server_id) == before
    assert await cloud.complaints() == []


@pytest.mark.parametrize("action", STILL)
async def test_a_server_whose_memory_is_lost_is_shutoff(cloud: ComputeCloud, action: str) -> None:
    server_id = await cloud.make_server()
    await change(cloud, server_id, action)
    # As a host ends its guests that was switched off and on again.
    await cloud.hypervisor().power_off(server_id, 0)
    await heal_servers.heal_once(cloud.compute)
    assert await state(cloud, server_id) == ("SHUTOFF", None, 4)
    assert await change(cloud, server_id, "os-start") == ("ACTIVE", None, 1)


@pytest.mark.parametrize("action", STILL)
async def test_a_guest_that_is_off_when_it_is_to_go_on_makes_its_server_shutoff(
    cloud: ComputeCloud, action: str
) -> None:
    server_id = await cloud.make_server()
    await change(cloud, server_id, action)
    await cloud.hypervisor().power_off(server_id, 0)
    assert await change(cloud, server_id, GOES_ON[action]) == ("SHUTOFF", None, 4)
    assert (await cloud.actions(server_id))[-1] == (GOES_ON[action], "Error")


@pytest.fixture
async def moving(tmp_path: Path) -> AsyncIterator[Moving]:
    """A server with volumes on one of two hosts."""
    async with ComputeCloud(tmp_path, hosts=("host1", "host2")) as opened:
        yield await server_that_moves(opened)


async def test_a_paused_server_moves_and_stays_paused(moving: Moving) -> None:
    cloud, server_id = moving.cloud, moving.server_id
    await change(cloud, server_id, "pause")
    await moving.move()
    assert (await moving.status(), await moving.host()) == ("completed", moving.destination)
    assert await state(cloud, server_id) == ("PAUSED", None, 3)
    assert await moving.states() == ["absent", "paused"]
    await cloud.look_at_hosts()
    assert await change(cloud, server_id, "unpause") == ("ACTIVE", None, 1)
    assert await moving.states() == ["absent", "running"]


async def test_a_paused_server_whose_move_breaks_off_stays_paused(moving: Moving) -> None:
    cloud, server_id = moving.cloud, moving.server_id
    await change(cloud, server_id, "pause")
    cloud.hypervisor(moving.source).knobs.fail("send_memory", Conflict("It broke off."))
    await moving.move()
    assert (await moving.status(), await moving.host()) == ("error", moving.source)
    assert await state(cloud, server_id) == ("PAUSED", None, 3)
    assert await moving.states() == ["paused", "absent"]


@pytest.fixture
async def sharing(tmp_path: Path) -> AsyncIterator[SharingCloud]:
    """Compute with the share service."""
    async with SharingCloud(tmp_path, hosts=("host1",)) as opened:
        yield opened


async def test_a_server_with_a_share_is_paused_and_not_suspended(sharing: SharingCloud) -> None:
    server_id, share_id = await sharing.make_shared()
    await sharing.power(server_id, "os-start")
    path = f"/servers/{server_id}/action"
    answer = await sharing.ask("POST", path, {"suspend": None})
    assert (answer.status, "was not suspended" in answer.text) == (409, True)
    assert (await sharing.power(server_id, "pause"))["status"] == "PAUSED"
    assert await sharing.shares(server_id) == {share_id: "active"}
    assert (await sharing.power(server_id, "unpause"))["status"] == "ACTIVE"
    assert await sharing.complaints() == []


@pytest.mark.parametrize(("word", "status"), [("pause", "PAUSED"), ("suspend", "SUSPENDED")])
async def test_a_server_that_is_reset_is_soon_shown_as_its_guest_is(
    cloud: ComputeCloud, word: str, status: str
) -> None:
    server_id = await cloud.make_server()
    assert await cloud.act(server_id, word) == 202
    await cloud.settle()
    reset = {"state": "active"}
    assert await cloud.act(server_id, "os-resetState", reset, user="admin") == 202
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    await heal_servers.heal_once(cloud.compute)
    assert (await cloud.server(server_id))["status"] == status
    assert await cloud.complaints() == []
