"""What is told of an operation that failed for good: how its server is by now, and what to do."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from mooring.compute.hosts.loops import watch_hosts
from mooring.errors import Conflict
from tests.compute.cloud import ComputeCloud
from tests.compute.elsewhere import events, refuse
from tests.compute.moving import Moving, moving_server
from tests.compute.pictured import LATEST, Kept, PicturedCloud, make_kept
from tests.compute.verifying import force_down, show
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")
REBOOT = "(openstack server reboot --hard)"
RESET = "reset the server's state (openstack server set --state active)"


@pytest.fixture
async def moving(keeper: Keeper) -> AsyncGenerator[Moving]:
    async with moving_server(keeper, hosts=HOSTS) as made:
        yield made


@pytest.fixture
async def dead(moving: Moving) -> Moving:
    """A server whose host is dead."""
    moving.cloud.hypervisor(moving.source).crash(moving.server_id)
    await force_down(moving.cloud, moving.source, down=True)
    return moving


@pytest.fixture
async def away(keeper: Keeper) -> AsyncGenerator[Moving]:
    """A server that was put away."""
    async with moving_server(keeper, hosts=HOSTS, then=put_away) as made:
        yield made


async def put_away(moving: Moving) -> None:
    assert await act(moving, "shelve") == 202


async def act(moving: Moving, action: str, value: Any = None, **how: Any) -> int:
    status = await moving.cloud.act(moving.server_id, action, value, **({"version": LATEST} | how))
    await moving.cloud.settle()
    return status


def fail(cloud: ComputeCloud, point: str, why: str = "It will not go.") -> None:
    cloud.probe.arm(f"compute.{point}", lambda: Conflict(why))


async def told_of(cloud: ComputeCloud, server_id: str) -> str:
    """Return what the newest action says of its end; of a server in ERROR its fault says that."""
    [*_, (_, result, details)] = await events(cloud, server_id)
    server, words = await cloud.server(server_id), str(details)
    assert result == "Error"
    assert (server["status"] == "ERROR") == ("fault" in server)
    assert server.get("fault", {"message": words[:255]})["message"] == words[:255]
    return words


# -- evacuations -------------------------------------------------------------------------------


async def evacuate(moving: Moving) -> str:
    value, how = {"host": moving.destination}, {"user": "admin", "version": "2.94"}
    assert await act(moving, "evacuate", value, **how) == 200
    return await told_of(moving.cloud, moving.server_id)


async def test_an_evacuation_in_vain_says_with_which_host_the_server_stays(dead: Moving) -> None:
    refuse(dead.cloud, [dead.destination])
    assert (await evacuate(dead)).startswith(
        f"The server stays with host {dead.source}, as it was. Evacuate it again once another host "
        f"can have it. On {dead.destination} it failed: "
    )


async def test_an_evacuation_that_fails_at_its_end_says_where_the_server_is(dead: Moving) -> None:
    knobs = dead.cloud.hypervisor(dead.destination).knobs
    knobs.fail("power_on", Conflict("It will not go."))
    assert await evacuate(dead) == (
        f"The server is on host {dead.destination}, where it may be off. See to what failed, then "
        f"reboot it hard {REBOOT}. On {dead.destination} it failed: It will not go."
    )


@pytest.mark.parametrize("step", ["owe_guest", "delete_left", "settle_claim"])
async def test_an_evacuation_says_where_else_the_volumes_are_and_a_hard_reboot_mends_it(
    dead: Moving, step: str
) -> None:
    fail(dead.cloud, f"evacuate/{step}/forward/before")
    told = await evacuate(dead)
    assert (await show(dead))["status"] == "ERROR"
    assert told.startswith(f"The server is on host {dead.destination}, where it may be off")
    left = f"its volumes are still attached at host {dead.source}, too. See to"
    assert (left in told) == (step != "settle_claim")
    assert f"reboot it hard {REBOOT}. It will not go." in told
    assert await act(dead, "reboot", {"type": "HARD"}) == 202
    assert (await show(dead))["status"] == "ACTIVE"
    assert (await dead.states())[1] == "running"
    assert (await dead.cloud.ask("DELETE", f"/servers/{dead.server_id}")).status == 204
    for _ in range(2):
        await watch_hosts.look_once(dead.cloud.compute)
    await dead.cloud.settle()
    assert await dead.attachments() == 0
    assert await dead.cloud.complaints() == []


# -- shelving ----------------------------------------------------------------------------------


async def test_a_shelving_in_vain_says_that_the_server_is_as_it_was(moving: Moving) -> None:
    fail(moving.cloud, "offload_server/reserve_spare/forward/before", "No.")
    assert await act(moving, "shelve") == 202
    assert await told_of(moving.cloud, moving.server_id) == (
        "The server was not put away, and is as it was. Shelve it again. No."
    )
    moving.cloud.hypervisor(moving.source).knobs.fail("power_off", Conflict("It will not."))
    assert await act(moving, "shelve") == 202
    assert (await told_of(moving.cloud, moving.server_id)).startswith(
        "The server was not put away, and is as its guest is. Shelve it again. "
    )


async def test_a_shelving_that_fails_at_its_end_says_how_it_is_shelved_after_all(
    moving: Moving,
) -> None:
    fail(moving.cloud, "offload_server/disconnect_left/forward/before")
    assert await act(moving, "shelve") == 202
    assert (await show(moving))["status"] == "ERROR"
    assert await told_of(moving.cloud, moving.server_id) == (
        f"The server is on host {moving.source}, with what that did not let go of. See to that "
        f"host, then {RESET}, and shelve it again. It will not go."
    )
    assert await act(moving, "os-resetState", {"state": "active"}, user="admin") == 202
    assert await act(moving, "shelve") == 202
    assert (await show(moving))["status"] == "SHELVED_OFFLOADED"


async def test_one_whose_root_disk_is_gone_is_told_to_be_rebooted_hard(tmp_path: Path) -> None:
    async with PicturedCloud(tmp_path, hosts=HOSTS) as cloud:
        kept: Kept = await make_kept(cloud)
        moving = kept.moving
        fail(cloud, "offload_server/disconnect_left/forward/before")
        assert await act(moving, "shelve") == 202
        assert await told_of(cloud, moving.server_id) == (
            f"The server is on host {moving.source}, with what that did not let go of. See to that "
            f"host, then reboot the server hard {REBOOT}, and shelve it again. It will not go."
        )
        for action, value in (("reboot", {"type": "HARD"}), ("shelve", None)):
            assert await act(moving, action, value) == 202
        assert (await show(moving))["status"] == "SHELVED_OFFLOADED"


async def test_an_unshelving_in_vain_says_that_the_server_stays_away(away: Moving) -> None:
    for host in HOSTS:
        await force_down(away.cloud, host, down=True)
    assert await act(away, "unshelve") == 202
    assert (await told_of(away.cloud, away.server_id)).startswith(
        "The server stays away, as it was. Unshelve it again once a host can have it. No valid host"
    )


@pytest.mark.parametrize("back", ["spawn_guest", "export_volume"])
async def test_an_unshelving_that_is_not_taken_back_says_where_the_server_is(
    away: Moving, back: str
) -> None:
    fail(away.cloud, "unshelve_server/spawn_guest/forward/after", "It will not come.")
    fail(away.cloud, f"unshelve_server/{back}/back/before")
    assert await act(away, "unshelve") == 202
    assert (await show(away))["status"] == "ERROR"
    assert await told_of(away.cloud, away.server_id) == (
        f"The server is on host {await away.host()}, which did not let it go, and may be off there."
        f" See to that host, then reboot the server hard {REBOOT}. It will not come."
    )
    assert await act(away, "reboot", {"type": "HARD"}) == 202
    assert (await show(away))["status"] == "ACTIVE"
    assert await away.cloud.complaints() == []


# -- other ends --------------------------------------------------------------------------------


async def test_a_volume_that_a_server_at_no_host_does_not_lose_is_waited_for(away: Moving) -> None:
    volume_id = await away.cloud.make_volume()
    assert (await away.cloud.attach(away.server_id, volume_id)).status == 200
    await away.cloud.settle()
    fail(away.cloud, "detach_waiting/delete_attachment/forward/before", "The storage will not.")
    assert (await away.cloud.detach(away.server_id, volume_id)).status >= 400
    assert await told_of(away.cloud, away.server_id) == (
        f"The server is in ERROR until volume {volume_id} is taken from it, which goes on by "
        "itself. The storage will not."
    )


async def test_a_deletion_that_fails_says_that_it_is_to_be_asked_for_again(moving: Moving) -> None:
    fail(moving.cloud, "delete_server/disconnect_host/forward/before")
    assert (await moving.cloud.ask("DELETE", f"/servers/{moving.server_id}")).status == 204
    await moving.cloud.settle()
    assert (await show(moving))["status"] == "ERROR"
    assert await told_of(moving.cloud, moving.server_id) == (
        "The server was not deleted, and is in ERROR with what is left of it. Delete it again. "
        "It will not go."
    )
    assert (await moving.cloud.ask("DELETE", f"/servers/{moving.server_id}")).status == 204
    await moving.cloud.settle()
    assert (await show(moving))["status"] == "gone"


async def test_a_new_server_that_is_not_taken_back_says_that_it_is_to_be_deleted(
    cloud: ComputeCloud,
) -> None:
    fail(cloud, "create_server/spawn_guest/forward/after", "It will not come.")
    fail(cloud, "create_server/spawn_guest/back/before")
    server_id = await cloud.make_server()
    assert await told_of(cloud, server_id) == (
        "The server was not built, and host host1 may still have its guest or its volumes. Delete "
        "it, which frees them. It will not come."
    )
