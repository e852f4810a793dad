"""Servers with shares: mounted before they start, unmounted after they stop, gone with them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from mooring.compute.shares import mappings
from mooring.errors import Conflict, Forbidden, Invalid, Unavailable
from tests.compute.sharing import SharingCloud, at
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
_HOSTS = "/os-services?binary=nova-compute"
ADDRESS = "192.0.2.1"


async def _make_shared(cloud: SharingCloud) -> tuple[str, str]:
    return await cloud.make_shared()


@pytest.fixture
async def cloud(keeper: Keeper) -> AsyncIterator[SharingCloud]:
    """Two simulated hosts, and a stopped server with a share, which the doctor finds well."""
    made = keeper.open(SharingCloud, _make_shared, "make_shared", hosts=("host1", "host2"))
    async with made as (opened, opened.prepared):
        yield opened
        assert await opened.complaints() == []


async def host_of(cloud: SharingCloud, server_id: str) -> str:
    return (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]


async def test_a_start_mounts_and_a_stop_unmounts(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    host = await host_of(cloud, server_id)
    assert (await cloud.power(server_id, "os-start"))["status"] == "ACTIVE"
    assert await cloud.shares(server_id) == {share_id: "active"}
    assert await cloud.mounts(host) == [(server_id, share_id)]
    assert await cloud.guest_tags(server_id, host) == [share_id]
    assert (await cloud.power(server_id, "os-stop"))["status"] == "SHUTOFF"
    assert await cloud.shares(server_id) == {share_id: "inactive"}
    assert await cloud.mounts(host) == []
    # Its host stays let in until the share is detached.
    assert list((await cloud.rules(share_id)).values()) == ["active"]


async def test_a_hard_reboot_mounts_what_is_missing(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    host = await host_of(cloud, server_id)
    assert (await cloud.power(server_id, "reboot", {"type": "HARD"}))["status"] == "ACTIVE"
    assert await cloud.mounts(host) == [(server_id, share_id)]
    assert await cloud.shares(server_id) == {share_id: "active"}
    for kind in ("HARD", "SOFT"):
        assert (await cloud.power(server_id, "reboot", {"type": kind}))["status"] == "ACTIVE"
        assert await cloud.guest_tags(server_id, host) == [share_id]
        assert await cloud.shares(server_id) == {share_id: "active"}


async def test_a_mount_that_fails_leaves_the_server_stopped_and_startable(
    cloud: SharingCloud,
) -> None:
    server_id, share_id = await cloud.make_shared()
    host = await host_of(cloud, server_id)
    second = await cloud.make_share("CEPHFS")
    await cloud.add_share(server_id, second)
    await cloud.settle()
    cloud.mounter(host, "CEPHFS").knobs.fail("mount_share", Forbidden("not let in"))
    assert (await cloud.power(server_id, "os-start"))["status"] == "SHUTOFF"
    assert await cloud.shares(server_id) == dict.fromkeys((share_id, second), "inactive")
    assert await cloud.mounts(host) == []
    assert (await cloud.actions(server_id))[-1] == ("start", "Error")
    assert (await cloud.power(server_id, "os-start"))["status"] == "ACTIVE"
    assert len(await cloud.mounts(host)) == 2


async def test_a_hard_reboot_of_a_host_that_is_not_let_in_leaves_the_guest_running(
    cloud: SharingCloud,
) -> None:
    server_id, share_id = await cloud.make_shared()
    host = await host_of(cloud, server_id)
    second = await cloud.make_share("CEPHFS")
    await cloud.add_share(server_id, second)
    await cloud.settle()
    await cloud.power(server_id, "os-start")
    await cloud.deny_all(second)
    cloud.storage("ceph").knobs.fail("grant", Invalid("not here"), times=2)
    assert (await cloud.power(server_id, "reboot", {"type": "HARD"}))["status"] == "ACTIVE"
    assert (await cloud.actions(server_id))[-1] == ("reboot", "Error")
    assert len(await cloud.mounts(host)) == 2
    assert await cloud.shares(server_id) == dict.fromkeys((share_id, second), "active")
    assert (await cloud.power(server_id, "reboot", {"type": "HARD"}))["status"] == "ACTIVE"


async def test_a_rule_that_somebody_removed_is_made_again_by_a_start(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    await cloud.deny_all(share_id)
    assert (await cloud.power(server_id, "os-start"))["status"] == "ACTIVE"
    assert list((await cloud.rules(share_id)).values()) == ["active"]


async def test_a_server_starts_while_the_share_service_is_away(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    cloud.lose_share_service()
    assert (await cloud.power(server_id, "os-start"))["status"] == "ACTIVE"
    assert await cloud.shares(server_id) == {share_id: "active"}
    cloud.find_share_service()


async def test_a_host_with_another_address_is_let_in_by_that_one(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    host = await host_of(cloud, server_id)
    await cloud.change_host(host, mounts=at("192.0.2.77"))
    assert (await cloud.power(server_id, "os-start"))["status"] == "ACTIVE"
    assert await cloud.rules(share_id) == {"192.0.2.77": "active"}


async def test_a_guest_that_stops_by_itself_makes_its_shares_inactive(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    host = await host_of(cloud, server_id)
    await cloud.power(server_id, "os-start")
    await cloud.hypervisor(host).power_off(server_id, 0)
    await cloud.look_around()
    assert (await cloud.server(server_id))["status"] == "SHUTOFF"
    assert await cloud.shares(server_id) == {share_id: "inactive"}
    # Its mount stays until it is started, or the share is detached.
    assert (await cloud.remove_share(server_id, share_id)).status == 200
    await cloud.settle()
    assert await cloud.mounts(host) == []
    assert await cloud.rules(share_id) == {}


@pytest.mark.parametrize("state", ["stopped", "active", "error"])
async def test_a_deletion_takes_rule_and_mount_along(cloud: SharingCloud, state: str) -> None:
    server_id, share_id = await cloud.make_shared()
    host = await host_of(cloud, server_id)
    if state != "stopped":
        await cloud.power(server_id, "os-start")
    if state == "error":
        assert await cloud.act(server_id, "os-resetState", {"state": "error"}, user="admin") == 202
        await cloud.settle()
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    assert await cloud.rules(share_id) == {}
    assert await cloud.places() == []
    assert await cloud.mounts(host) == []


async def test_a_deletion_spares_the_rule_of_another_server(cloud: SharingCloud) -> None:
    first, share_id = await cloud.make_shared("CEPHFS")
    second = await cloud.make_stopped()
    await cloud.add_share(second, share_id)
    await cloud.settle()
    await cloud.power(second, "os-start")
    await cloud.ask("DELETE", f"/servers/{first}")
    await cloud.settle()
    assert list((await cloud.rules(share_id)).values()) == ["active"]
    assert await cloud.mounts(await host_of(cloud, second)) == [(second, share_id)]


async def test_a_deletion_ends_an_attach_that_waits(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_stopped(), await cloud.make_share()
    cloud.storage().knobs.fail("grant", Unavailable("later"), times=1000)
    await cloud.add_share(server_id, share_id)
    await cloud.pass_time(5)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "gone"
    assert await cloud.rules(share_id) == {}


@pytest.mark.parametrize("hangs", [False, True])
async def test_a_start_that_fails_leaves_nothing_mounted(
    cloud: SharingCloud, *, hangs: bool
) -> None:
    """Unless the host does not unmount it, for hours: the next start takes it as it is."""
    server_id, share_id = await cloud.make_shared()
    host = await host_of(cloud, server_id)
    cloud.hypervisor(host).knobs.fail("define", Conflict("It will not start."))
    if hangs:
        cloud.silent = ("DELETE", f"/servers/{server_id}/shares/")
    assert await cloud.act(server_id, "os-start") == 202
    for _ in range(60):
        await cloud.pass_time(60)
    cloud.silent = None
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "SHUTOFF"
    assert await cloud.shares(server_id) == {share_id: "inactive"}
    assert await cloud.mounts(host) == ([(server_id, share_id)] if hangs else [])
    await cloud.look_at_hosts()
    await cloud.power(server_id, "os-start")
    assert await cloud.shares(server_id) == {share_id: "active"}
    assert await cloud.mounts(host) == [(server_id, share_id)]


async def reset_some_times(cloud: SharingCloud, server_id: str, times: int) -> None:
    path, body = f"/servers/{server_id}/action", {"os-resetState": {"state": "error"}}
    for _ in range(times):
        await cloud.do("POST", path, body, user="admin")
        await cloud.pass_time(60)


async def require_detachable(cloud: SharingCloud, server_id: str, share_id: str) -> None:
    """See that no host has the share or is let in to it, and take it from the server."""
    await cloud.settle()
    assert await cloud.rules(share_id) == {}
    assert await cloud.mounts("host1") + await cloud.mounts("host2") == []
    await cloud.remove_share(server_id, share_id)
    await cloud.settle()
    assert await cloud.shares(server_id) == {}


@pytest.mark.parametrize("resets", [1, 3])
async def test_a_reset_of_state_ends_a_detach_that_waits(cloud: SharingCloud, resets: int) -> None:
    """So does one that takes the place of another one, which could not say so either."""
    server_id, share_id = await cloud.make_shared()
    cloud.lose_share_service()
    await cloud.remove_share(server_id, share_id)
    await cloud.pass_time(120)
    assert await cloud.shares(server_id) == {share_id: "detaching"}
    await reset_some_times(cloud, server_id, resets)
    assert await cloud.shares(server_id) == {share_id: "error"}
    cloud.find_share_service()
    await require_detachable(cloud, server_id, share_id)


@pytest.mark.parametrize("resets", [1, 3])
async def test_a_reset_of_state_unmounts_what_was_to_be_detached(
    cloud: SharingCloud, resets: int
) -> None:
    """Where the detach had come no further than to say so, and the host is silent."""
    server_id, share_id = await cloud.make_shared()
    await cloud.power(server_id, "os-start")
    await cloud.hypervisor(await host_of(cloud, server_id)).power_off(server_id, 0)
    await cloud.look_around()
    await cloud.compute.store.write(
        lambda tx: mappings.set_status(tx, server_id, ["inactive"], "detaching", cloud.clock.now())
    )
    cloud.silent = ("DELETE", f"/servers/{server_id}/shares/")
    await reset_some_times(cloud, server_id, resets)
    assert await cloud.shares(server_id) == {share_id: "error"}
    cloud.silent = None
    await require_detachable(cloud, server_id, share_id)


async def force_down(cloud: SharingCloud, host: str) -> None:
    listed = (await cloud.ask("GET", _HOSTS, user="admin")).body["services"]
    [service] = [one for one in listed if one["host"] == host]
    body = {"forced_down": True}
    answer = await cloud.ask("PUT", f"/os-services/{service['id']}", body, user="admin")
    assert answer.status == 200


async def test_a_lost_host_unmounts_what_was_deleted_once_it_is_back(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    host = await host_of(cloud, server_id)
    await cloud.power(server_id, "os-start")
    await force_down(cloud, host)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    assert await cloud.rules(share_id) == {}
    assert await cloud.places() == []
    assert await cloud.mounts(host) == [(server_id, share_id)]
    await cloud.look_at_hosts()
    assert await cloud.mounts(host) == []


async def test_a_share_is_detached_of_a_lost_host_only_where_no_guest_can_run_with_it(
    cloud: SharingCloud,
) -> None:
    server_id, share_id = await cloud.make_shared()
    host = await host_of(cloud, server_id)
    await cloud.power(server_id, "os-start")
    await cloud.act(server_id, "os-resetState", {"state": "error"}, user="admin")
    await cloud.settle()
    await force_down(cloud, host)
    await cloud.remove_share(server_id, share_id)
    await cloud.settle()
    assert await cloud.shares(server_id) == {share_id: "active"}
    assert list((await cloud.rules(share_id)).values()) == ["active"]
    assert ("detach_share", "Error") in await cloud.actions(server_id)


async def test_a_share_that_is_not_mounted_is_detached_of_a_lost_host(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    await force_down(cloud, await host_of(cloud, server_id))
    await cloud.remove_share(server_id, share_id)
    await cloud.settle()
    assert await cloud.shares(server_id) == {}
    assert await cloud.rules(share_id) == {}
    await cloud.look_at_hosts()


async def test_a_detach_of_a_running_guest_in_error_leaves_everything(cloud: SharingCloud) -> None:
    server_id, share_id = await cloud.make_shared()
    host = await host_of(cloud, server_id)
    await cloud.power(server_id, "os-start")
    await cloud.act(server_id, "os-resetState", {"state": "error"}, user="admin")
    await cloud.settle()
    assert (await cloud.remove_share(server_id, share_id)).status == 200
    await cloud.settle()
    assert await cloud.shares(server_id) == {share_id: "active"}
    assert await cloud.mounts(host) == [(server_id, share_id)]
    assert ("detach_share", "Error") in await cloud.actions(server_id)


@pytest.mark.parametrize(
    ("action", "value", "status", "said"),
    [
        ("os-migrateLive", {"host": None, "block_migration": "auto"}, 409, "detach its shares"),
        ("rebuild", {"imageRef": "image"}, 400, "detach its shares"),
        ("shelve", None, 409, "detach its shares"),
        ("suspend", None, 409, "detach its shares"),
        ("evacuate", {}, 409, "detach its shares"),
        ("migrate", None, 409, "--os-compute-api-version 2.106"),
        ("resize", {"flavorRef": "2"}, 409, "--os-compute-api-version 2.106"),
    ],
)
async def test_what_stays_blocked_says_so_and_changes_nothing(
    cloud: SharingCloud, action: str, value: object, status: int, said: str
) -> None:
    server_id, share_id = await cloud.make_shared()
    value = {"imageRef": cloud.image_id} if action == "rebuild" else value
    path, before = f"/servers/{server_id}/action", await cloud.actions(server_id)
    answer = await cloud.ask("POST", path, {action: value}, user="admin")
    assert answer.status == status, answer.text
    assert said in answer.text
    assert await cloud.shares(server_id) == {share_id: "inactive"}
    assert await cloud.actions(server_id) == before


async def test_a_share_that_is_being_changed_keeps_its_rule_until_it_can_go(
    cloud: SharingCloud,
) -> None:
    server_id, share_id = await cloud.make_shared()
    cloud.storage().knobs.hold("resize")
    grow = {"extend": {"new_size": 2}}
    assert (await cloud.share_api("POST", f"/shares/{share_id}/action", grow)).status == 202
    await cloud.pass_time(1)
    await cloud.remove_share(server_id, share_id)
    await cloud.pass_time(20)
    assert await cloud.shares(server_id) == {share_id: "detaching"}
    cloud.storage().knobs.release("resize")
    await cloud.settle()
    assert await cloud.shares(server_id) == {}
    assert await cloud.rules(share_id) == {}


async def test_a_detach_that_is_refused_for_good_leaves_the_share_as_it_was(
    cloud: SharingCloud,
) -> None:
    server_id, share_id = await cloud.make_shared()
    cloud.refuse_denials()
    await cloud.remove_share(server_id, share_id)
    await cloud.settle()
    assert await cloud.shares(server_id) == {share_id: "inactive"}
    assert ("detach_share", "Error") in await cloud.actions(server_id)
    cloud.find_share_service()
    assert (await cloud.power(server_id, "os-start"))["status"] == "ACTIVE"
