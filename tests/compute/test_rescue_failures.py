"""Rescues that fail or are cut short, and what is left of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.compute.hosts.loops import heal_servers
from mooring.errors import Conflict, NoCapacity
from tests.compute.cloud import IMAGE, NEW, ComputeCloud
from tests.compute.rescuing import HARD, guest_of, rescue, rescue_files, unrescue
from tests.compute.sharing import SharingCloud
from tests.compute.test_power import guest_state, state
from tests.compute.verifying import force_down

pytestmark = pytest.mark.anyio


async def test_an_image_that_goes_missing_leaves_the_server_running(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_attached()
    before = await guest_of(cloud, server_id)
    cloud.hypervisor().knobs.fail("make_rescue", NoCapacity("The disk is full."))
    await rescue(cloud, server_id, {"rescue_image_ref": NEW})
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)
    assert await guest_of(cloud, server_id) == before
    assert (await cloud.known_agents["host1"].read_console(server_id)).count("guest: up") == 1
    assert (await cloud.actions(server_id))[-1] == ("rescue", "Error")
    assert await cloud.volume_status(volume_id) == "in-use"


@pytest.mark.parametrize("runs", [True, False])
async def test_a_rescue_that_does_not_start_gives_the_guest_its_own_disks_back(
    cloud: ComputeCloud, *, runs: bool
) -> None:
    server_id, _ = await cloud.make_attached()
    if not runs:
        await cloud.act(server_id, "os-stop")
        await cloud.settle()
    before, shown = await guest_of(cloud, server_id), await state(cloud, server_id)
    cloud.hypervisor().knobs.fail("power_on", Conflict("The emulator does not start."))
    await rescue(cloud, server_id)
    assert await state(cloud, server_id) == shown
    assert await guest_of(cloud, server_id) == before
    assert rescue_files(cloud) == []


async def test_a_guest_that_cannot_be_brought_back_puts_its_server_into_error(
    cloud: ComputeCloud,
) -> None:
    server_id, _ = await cloud.make_attached()
    for _ in range(2):
        cloud.hypervisor().knobs.fail("power_on", Conflict("The emulator does not start."))
    await rescue(cloud, server_id)
    server = await cloud.server(server_id)
    assert server["status"] == "ERROR"
    assert "reboot it hard" in server["fault"]["message"]
    await cloud.act(server_id, "reboot", HARD)
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)
    assert (await guest_of(cloud, server_id)).rescue_image_id == ""


async def test_an_unrescue_that_does_not_start_leaves_the_server_as_its_guest_is(
    cloud: ComputeCloud,
) -> None:
    server_id = await cloud.make_server()
    await rescue(cloud, server_id)
    cloud.hypervisor().knobs.fail("power_off", Conflict("The emulator stays."))
    await unrescue(cloud, server_id)
    assert await state(cloud, server_id) == ("RESCUE", None, 1)
    cloud.hypervisor().knobs.fail("power_on", Conflict("The emulator does not start."))
    await unrescue(cloud, server_id)
    assert await state(cloud, server_id) == ("SHUTOFF", None, 4)
    await cloud.act(server_id, "os-start")
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)


async def test_a_guest_that_ended_by_itself_is_unrescued_all_the_same(cloud: ComputeCloud) -> None:
    server_id = await cloud.make_server()
    await rescue(cloud, server_id)
    cloud.hypervisor().shut_down_inside(server_id)
    await heal_servers.heal_once(cloud.compute)
    assert (await state(cloud, server_id))[0] == "RESCUE"
    await unrescue(cloud, server_id)
    assert await guest_state(cloud, server_id) == "running"


async def test_a_guest_that_its_host_has_lost_comes_back_with_its_own_disk(
    cloud: ComputeCloud,
) -> None:
    server_id = await cloud.make_server()
    before = await guest_of(cloud, server_id)
    await rescue(cloud, server_id)
    await cloud.hypervisor().remove(server_id, keeps_disks=True)
    assert rescue_files(cloud) == []
    own = cloud.hypervisor().guest_directory / server_id
    own.mkdir(exist_ok=True)
    (own / "root").write_bytes(b"root")
    await unrescue(cloud, server_id)
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)
    assert (await guest_of(cloud, server_id)).image_id == before.image_id


async def test_a_deleted_server_leaves_nothing_of_its_rescue(cloud: ComputeCloud) -> None:
    server_id, volume_id = await cloud.make_attached()
    await rescue(cloud, server_id)
    assert len(rescue_files(cloud)) == 1
    await cloud.ask("DELETE", f"/servers/{server_id}")
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "gone"
    assert rescue_files(cloud) == []
    assert await cloud.volume_status(volume_id) == "available"


@pytest.mark.parametrize("action", ["reboot", "stop and start", "rescue"])
async def test_a_reset_says_only_what_the_server_is_and_its_next_start_makes_it_so(
    cloud: ComputeCloud, action: str
) -> None:
    server_id = await cloud.make_server()
    before = await guest_of(cloud, server_id)
    await rescue(cloud, server_id)
    await cloud.act(server_id, "os-resetState", {"state": "active"}, user="admin")
    await cloud.settle()
    assert (await guest_of(cloud, server_id)).rescue_image_id == IMAGE
    assert await cloud.act(server_id, "unrescue") == 409
    if action == "reboot":
        await cloud.act(server_id, "reboot", HARD)
    elif action == "rescue":
        await rescue(cloud, server_id, {"rescue_image_ref": NEW})
        assert (await guest_of(cloud, server_id)).rescue_image_id == NEW
        await unrescue(cloud, server_id)
    else:
        await cloud.act(server_id, "os-stop")
        await cloud.settle()
        await cloud.act(server_id, "os-start")
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)
    assert await guest_of(cloud, server_id) == before
    assert rescue_files(cloud) == []


@pytest.mark.parametrize("state_wanted", ["active", "error"])
async def test_a_reset_in_the_middle_of_a_rescue_leaves_nothing_stuck(
    cloud: ComputeCloud, state_wanted: str
) -> None:
    server_id = await cloud.make_server()
    before = await guest_of(cloud, server_id)
    cloud.hypervisor().knobs.hold("power_off")
    assert await cloud.act(server_id, "rescue") == 200
    await cloud.act(server_id, "os-resetState", {"state": state_wanted}, user="admin")
    cloud.hypervisor().knobs.release("power_off")
    await cloud.settle()
    assert (await state(cloud, server_id))[1] is None
    await cloud.look_at_hosts()
    assert await cloud.act(server_id, "reboot", HARD) == 202
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)
    assert await guest_of(cloud, server_id) == before
    assert rescue_files(cloud) == []


async def test_a_host_that_dies_meanwhile_leaves_a_server_that_can_be_evacuated(
    cloud: ComputeCloud,
) -> None:
    server_id = await cloud.make_server()
    cloud.silent = ("PUT", f"/servers/{server_id}/power")
    assert await cloud.act(server_id, "rescue") == 200
    await force_down(cloud, "host1", down=True)
    await cloud.settle()
    assert await state(cloud, server_id) == ("ACTIVE", None, 1)
    _, message = (await cloud.actions(server_id))[-1]
    assert message == "Error"


@pytest.mark.parametrize("runs", [True, False])
async def test_a_rescue_that_does_not_start_leaves_shares_as_they_were(
    tmp_path: Path, *, runs: bool
) -> None:
    async with SharingCloud(tmp_path) as cloud:
        server_id, share_id = await cloud.make_shared()
        if runs:
            await cloud.power(server_id, "os-start")
        mounts, shown = await cloud.mounts("host1"), await cloud.shares(server_id)
        assert bool(mounts) == runs
        cloud.hypervisor().knobs.fail("power_on", Conflict("The emulator does not start."))
        await rescue(cloud, server_id)
        assert await cloud.mounts("host1") == mounts
        assert await cloud.shares(server_id) == shown
        assert await cloud.complaints() == []
        await rescue(cloud, server_id)
        assert await cloud.mounts("host1") == [(server_id, share_id)]
