"""Swaps that cannot be done, or be taken back; hosts that die, and others that take over."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.compute.hosts.loops import watch_hosts
from mooring.errors import Conflict, NoCapacity, Unavailable
from tests.compute.cloud import ComputeCloud
from tests.compute.elsewhere import events
from tests.compute.fenced import say_down
from tests.compute.swapping import GIB, Stand, prepare, swap

pytestmark = pytest.mark.anyio


# -- taken back --------------------------------------------------------------------------------


@pytest.mark.parametrize("size_gib", [1, 2])
@pytest.mark.parametrize("point", ["mirror_disk", "mirroring", "switch_disk"])
async def test_a_host_that_refuses_leaves_everything_as_it_was(
    cloud: ComputeCloud, point: str, size_gib: int
) -> None:
    ids = _, _, new = await prepare(cloud, size_gib)
    cloud.hypervisor().knobs.fail(point, Conflict("The emulator will not."))
    assert (await swap(cloud, *ids)).status == 202
    await cloud.settle()
    await Stand(cloud, ids).check_undone()
    [*_, (_, _, details)] = await events(cloud, ids[0])
    has = f"The server has volume {ids[1]}, as before; volume {new} was freed. "
    assert str(details).startswith(has)
    shown = await cloud.known_agents["host1"].show_volume(new)
    assert shown is not None
    assert shown.virtual_bytes == size_gib * GIB
    assert (await swap(cloud, *ids)).status == 202
    await cloud.settle()
    await Stand(cloud, ids).check_done()


@pytest.mark.parametrize("how", ["off inside", "crash", "full storage"])
async def test_a_copy_that_ends_before_its_time_leaves_the_old_volume(
    cloud: ComputeCloud, how: str
) -> None:
    ids = server_id, old, new = await prepare(cloud)
    hypervisor = cloud.hypervisor()
    hypervisor.lagging.add(new)
    await swap(cloud, *ids)
    await cloud.compute.sagas.settle(3.0)
    if how == "off inside":
        hypervisor.shut_down_inside(server_id)
    elif how == "crash":
        hypervisor.crash(server_id)
    else:
        hypervisor.break_mirrors(server_id)
    await cloud.settle()
    assert await cloud.volume_status(old) == "in-use"
    assert await cloud.volume_status(new) == "available"
    assert await cloud.disks(server_id) == [old]
    assert (await cloud.actions(server_id))[-1] == ("swap_volume", "Error")
    if how != "full storage":
        await cloud.act(server_id, "os-start")
        await cloud.settle()
    await Stand(cloud, ids).check(old, new)


async def test_a_copy_that_fails_between_the_last_look_and_the_switch_is_taken_back(
    cloud: ComputeCloud,
) -> None:
    ids = server_id, _, _ = await prepare(cloud)
    knobs = cloud.hypervisor().knobs
    knobs.hold("switch_disk")
    await swap(cloud, *ids)
    await knobs.held("switch_disk")
    cloud.hypervisor().break_mirrors(server_id)
    knobs.release("switch_disk")
    await cloud.settle()
    await Stand(cloud, ids).check_undone()


async def test_an_operator_aborts_a_copy(cloud: ComputeCloud) -> None:
    ids = _, _, new = await prepare(cloud)
    cloud.hypervisor().lagging.add(new)
    await swap(cloud, *ids)
    await cloud.compute.sagas.settle(3.0)
    await abort(cloud, new)
    await cloud.settle()
    await Stand(cloud, ids).check_undone()


async def abort(cloud: ComputeCloud, volume_id: str) -> None:
    sagas = cloud.compute.sagas

    def ask(tx: Any) -> None:
        (saga_id,) = sagas.holders(tx, f"volume:{volume_id}")
        sagas.abort(tx, saga_id)

    await cloud.compute.store.write(ask)


# -- finished ----------------------------------------------------------------------------------


async def test_a_host_that_keeps_the_old_volume_is_error_until_it_lets_go(
    cloud: ComputeCloud,
) -> None:
    ids = server_id, old, new = await prepare(cloud)
    cloud.driver().knobs.fail("unexport", Conflict("The export is in use."), times=6)
    await swap(cloud, *ids)
    await cloud.compute.sagas.settle(1.0)
    sick = await cloud.server(server_id)
    assert sick["status"] == "ERROR"
    assert sick["fault"]["message"] == (
        f"The server has volume {new}, and is in ERROR until volume {old} is taken from it, which "
        "goes on by itself; a hard reboot tries at once. The export is in use."
    )
    assert await cloud.disks(server_id) == [new]
    await cloud.settle()
    await Stand(cloud, ids).check(new, old)


async def test_a_host_that_keeps_the_new_volume_of_a_swap_in_vain_is_error_until_it_lets_go(
    cloud: ComputeCloud,
) -> None:
    ids = server_id, old, new = await prepare(cloud)
    knobs = cloud.hypervisor().knobs
    knobs.fail("mirroring", Conflict("It does not copy."))
    point = "compute.swap_volume/begin_copy/back/before"
    cloud.probe.arm(point, lambda: Conflict("It will not go."))
    await swap(cloud, *ids)
    await cloud.compute.sagas.settle(1.0)
    [*_, (_, _, details)] = await events(cloud, server_id)
    assert str(details).startswith(
        f"The server has volume {old}, and is in ERROR until volume {new} is taken from it, which "
        "goes on by itself; a hard reboot tries at once. "
    )
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert [await cloud.volume_status(one) for one in (old, new)] == ["in-use", "available"]


async def test_a_guest_that_is_not_told_of_its_size_has_the_volume_all_the_same(
    cloud: ComputeCloud,
) -> None:
    ids = _, _, new = await prepare(cloud, 2)
    cloud.hypervisor().knobs.fail("resize_disk", NoCapacity("No room."), times=20)
    await swap(cloud, *ids)
    await cloud.settle()
    await Stand(cloud, ids).check(new, ids[1])
    # What the guest could not be given at once the volume has when it is detached.
    await watch_hosts.look_at(cloud.compute, "host1")
    assert (await cloud.detach(ids[0], new)).status == 202
    await cloud.settle()
    shown = await cloud.known_agents["host1"].show_volume(new)
    assert shown is not None
    assert shown.virtual_bytes == 2 * GIB


# -- hosts that die ----------------------------------------------------------------------------


async def test_a_host_that_is_forced_down_in_the_copy_keeps_nobody_waiting(
    cloud: ComputeCloud,
) -> None:
    ids = server_id, old, new = await prepare(cloud)
    cloud.hypervisor().lagging.add(new)
    await swap(cloud, *ids)
    await cloud.compute.sagas.settle(3.0)
    assert (await say_down(cloud, "host1", down=True)).status == 200
    await cloud.settle()
    assert [await cloud.volume_status(one) for one in (old, new)] == ["in-use", "available"]
    assert [one["volumeId"] for one in await cloud.attachments(server_id)] == [old]
    assert (await cloud.actions(server_id))[-1] == ("swap_volume", "Error")


async def test_a_host_that_died_in_the_copy_is_up_again_though_the_larger_volume_was_deleted(
    cloud: ComputeCloud,
) -> None:
    ids = server_id, old, new = await prepare(cloud, 2)
    cloud.hypervisor().lagging.add(new)
    await swap(cloud, *ids)
    await cloud.compute.sagas.settle(3.0)
    assert sorted(await cloud.connections()) == sorted([old, new])
    assert (await say_down(cloud, "host1", down=True)).status == 200
    cloud.hypervisor().crash(server_id)
    await cloud.settle()
    assert (await cloud.ask("DELETE", f"/volume/v3/volumes/{new}")).status == 202
    await cloud.settle()
    assert await cloud.volume_status(new) == "gone"
    await watch_hosts.look_at(cloud.compute, "host1")
    assert (await say_down(cloud, "host1", down=False)).status == 200
    assert await cloud.connections() == [old]


async def test_a_host_that_is_lost_in_the_switch_leaves_the_new_volume(
    cloud: ComputeCloud,
) -> None:
    server_id, old, new = await prepare(cloud)
    cloud.silent = ("PUT", f"/servers/{server_id}/disks/{old}/mirror/switch")
    await swap(cloud, server_id, old, new)
    await cloud.compute.sagas.settle(3.0)
    assert (await say_down(cloud, "host1", down=True)).status == 200
    await cloud.settle()
    assert [await cloud.volume_status(one) for one in (old, new)] == ["available", "in-use"]
    assert [one["volumeId"] for one in await cloud.attachments(server_id)] == [new]


async def test_a_host_that_refuses_the_switch_and_falls_silent_keeps_both_volumes_until_it_answers(
    cloud: ComputeCloud,
) -> None:
    ids = server_id, old, new = await prepare(cloud)
    cloud.hypervisor().knobs.fail("switch_disk", Conflict("The emulator will not."))
    cloud.silent = ("DELETE", f"/servers/{server_id}/disks/{old}/mirror")
    await swap(cloud, *ids)
    await cloud.compute.sagas.settle(1800.0)
    assert "available" not in [await cloud.volume_status(one) for one in (old, new)]
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    cloud.silent = None
    await cloud.settle()
    await Stand(cloud, ids).check_undone()


@pytest.mark.parametrize("step", ["mirror", "mirror/switch"])
async def test_a_deletion_in_the_middle_frees_both_volumes(cloud: ComputeCloud, step: str) -> None:
    server_id, old, new = await prepare(cloud)
    cloud.silent = ("PUT", f"/servers/{server_id}/disks/{old}/{step}")
    await swap(cloud, server_id, old, new)
    await cloud.compute.sagas.settle(3.0)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.compute.sagas.settle(30.0)
    cloud.silent = None
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "gone"
    for volume_id in (old, new):
        assert await cloud.volume_status(volume_id) == "available"
    assert await cloud.connections() == []


@pytest.mark.parametrize("step", ["mirror", "mirror/switch"])
async def test_a_reset_in_the_middle_leaves_one_volume_and_frees_the_other(
    cloud: ComputeCloud, step: str
) -> None:
    server_id, old, new = await prepare(cloud)
    cloud.silent = ("", f"/servers/{server_id}/disks/{old}/{step}")
    await swap(cloud, server_id, old, new)
    await cloud.compute.sagas.settle(3.0)
    reset = {"state": "active"}
    asked = await cloud.meanwhile(
        cloud.ask("POST", f"/servers/{server_id}/action", {"os-resetState": reset}, user="admin")
    )
    await cloud.compute.sagas.settle(60.0)
    cloud.silent = None
    await cloud.settle()
    assert (await asked).status == 202
    (has,) = [one["volumeId"] for one in await cloud.attachments(server_id)]
    (free,) = {old, new} - {has}
    assert await cloud.volume_status(has) == "in-use"
    assert await cloud.volume_status(free) == "available"
    await watch_hosts.look_at(cloud.compute, "host1")
    assert await cloud.act(server_id, "reboot", {"type": "HARD"}) == 202
    await cloud.settle()
    assert await cloud.disks(server_id) == [has]
    assert await cloud.connections() == [has]


async def test_an_unanswered_switch_is_asked_for_again(cloud: ComputeCloud) -> None:
    ids = await prepare(cloud)
    cloud.hypervisor().knobs.fail("switch_disk", Unavailable("Ask again."), times=3)
    await swap(cloud, *ids)
    await cloud.settle()
    await Stand(cloud, ids).check_done()
