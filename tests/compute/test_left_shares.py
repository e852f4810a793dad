"""Shares at a host that a server has left, where it or the share service does not let go at once.

And what no server needs: access rules and mounts that nobody knows any more (specs 003, "stale
rules leaked by error scenarios").
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from sqlalchemy import delete

from mooring.agent_api.transport import Forward as HostForward
from mooring.agent_api.transport import Request as HostRequest
from mooring.agent_api.transport import Response as HostResponse
from mooring.compute.hosts import draining
from mooring.compute.shares import access_rules, doors
from mooring.compute.shares.loops import sweep_shares
from mooring.compute.tables import ShareMapping
from mooring.errors import Conflict, Invalid
from tests.compute.shared_moves import (
    OLD,
    Refusal,
    Sharing,
    address_of,
    fault,
    leak,
    refuse,
    server_with_shares,
    sharing_cloud,
    sharing_server,
    switch,
)
from tests.compute.sharing import SharingCloud
from tests.compute.verifying import force_down
from tests.kept import Keeper

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[SharingCloud]:
    async with sharing_cloud(tmp_path, ("host1", "host2", "host3")) as opened:
        yield opened


@pytest.fixture
async def sharing(keeper: Keeper) -> AsyncGenerator[Sharing]:
    async with sharing_server(keeper, hosts=("host1", "host2", "host3")) as made:
        yield made


async def releases(cloud: SharingCloud) -> int:
    """Return how many clean-ups are not done."""
    answer = await cloud.ask("GET", "/mooring/operations", user="admin")
    return sum(one["name"] == "compute.release_share" for one in answer.body["operations"])


async def leave_badly(sharing: Sharing, word: str, *, silent: bool) -> Refusal:
    """Say the word while the share service does not deny access; return what ends that."""
    await sharing.act("migrate", {"host": sharing.destination})
    refusal = Refusal(sharing.cloud, "deny_access")
    refusal.silent = silent
    await sharing.begin(word)
    for _ in range(60):
        await sharing.cloud.pass_time(2.0)
        if await sharing.status() == "ACTIVE":
            break
    return refusal


@pytest.mark.parametrize("silent", [True, False])
@pytest.mark.parametrize("word", ["confirmResize", "revertResize"])
async def test_the_server_is_as_it_should_be_while_the_share_service_does_not_deny_access(
    sharing: Sharing, word: str, *, silent: bool
) -> None:
    """Silent, or refusing: the clean-up goes on, and the doctor shows it until it is done."""
    refusal = await leave_badly(sharing, word, silent=silent)
    here, left = ("d", "s") if word == "confirmResize" else ("s", "d")
    assert await sharing.status() == "ACTIVE"
    assert await sharing.host() == sharing.named(here)
    await sharing.has(rules="sd", mounts=here, guest=here)
    assert set((await sharing.mappings()).values()) == {"active"}
    assert await releases(sharing.cloud) == 1
    told = [one for one in await sharing.cloud.complaints() if sharing.shares[0] in one]
    assert told
    assert all(sharing.named(left) in one for one in told)
    refusal.is_on = False
    await sharing.cloud.settle()
    await sharing.has(rules=here, mounts=here, guest=here)
    assert (await releases(sharing.cloud), await sharing.cloud.complaints()) == (0, [])


async def test_a_server_does_not_come_back_to_a_host_that_still_lets_go(sharing: Sharing) -> None:
    refusal = await leave_badly(sharing, "confirmResize", silent=False)
    await sharing.cloud.look_at_hosts()
    answer = await sharing.begin("migrate", {"host": sharing.source})
    assert answer.status == 202
    await sharing.cloud.pass_time(30.0)
    assert (await sharing.status(), await sharing.host()) == ("ACTIVE", sharing.destination)
    assert "1 still letting go of its shares" in await fault(sharing)
    await sharing.has(rules="sd", mounts="d", guest="d")
    refusal.is_on = False
    await sharing.cloud.settle()
    await sharing.cloud.look_at_hosts()
    await sharing.act("migrate", {"host": sharing.source})
    await sharing.act("confirmResize")
    await sharing.has(rules="s", mounts="s", guest="s")


async def test_a_server_is_deleted_whose_former_host_still_lets_go(sharing: Sharing) -> None:
    refusal = await leave_badly(sharing, "confirmResize", silent=False)
    refusal.is_on = False
    await sharing.cloud.ask("DELETE", f"/servers/{sharing.server_id}")
    await sharing.cloud.settle()
    await sharing.leaves_no_trace()
    assert await releases(sharing.cloud) == 0


async def test_a_host_is_kept_out_once_the_storage_lets_it_however_often_it_refused(
    sharing: Sharing,
) -> None:
    """As often as the confirmation denies its rule, and then as what goes on with that does."""
    left = [2 * doors.DENIALS + 1]

    async def refuse_some(request: HostRequest, forward: HostForward) -> HostResponse:
        if left[0] and request.method == "DELETE" and "/access/" in request.target:
            left[0] -= 1
            raise Conflict("It is busy.")
        return await forward(request)

    await sharing.act("migrate", {"host": sharing.destination})
    sharing.cloud.deliver_to_host = refuse_some
    await sharing.act("confirmResize")
    assert left == [0]
    await sharing.has(rules="d", mounts="d", guest="d")
    assert (await releases(sharing.cloud), await sharing.cloud.complaints()) == (0, [])


async def test_a_server_that_could_not_be_deleted_has_its_shares_only_where_it_is(
    sharing: Sharing,
) -> None:
    async def refuse_end(request: HostRequest, forward: HostForward) -> HostResponse:
        asked = (request.method, request.headers["host"], request.target)
        if asked == ("DELETE", sharing.destination, f"/servers/{sharing.server_id}"):
            raise Conflict("It is busy.")
        return await forward(request)

    await sharing.act("migrate", {"host": sharing.destination})
    sharing.cloud.deliver_to_host = refuse_end
    await sharing.cloud.ask("DELETE", f"/servers/{sharing.server_id}")
    await sharing.cloud.settle()
    assert await sharing.status() == "ERROR"
    await sharing.act("reboot", {"type": "HARD"})
    assert (await sharing.status(), await sharing.host()) == ("ACTIVE", sharing.destination)
    await sharing.has(rules="d", mounts="d", guest="d")
    assert await sharing.cloud.complaints() == []


@pytest.mark.parametrize("fails", ["mount", "define"])
async def test_what_cannot_be_undone_at_the_destination_holds_up_no_server(
    cloud: SharingCloud, fails: str
) -> None:
    """Before its guest was to stop, and behind that."""
    sharing = await server_with_shares(cloud, await cloud.make_share(), await cloud.make_share())
    refuse(sharing, fails)
    refusal = Refusal(sharing.cloud, "deny_access")
    await sharing.begin("migrate", {"host": sharing.destination})
    for _ in range(60):
        await sharing.cloud.pass_time(2.0)
    assert (await sharing.status(), await sharing.host()) == ("ACTIVE", sharing.source)
    await sharing.has(rules="sd", mounts="s", guest="s")
    refusal.is_on = False
    await sharing.cloud.settle()
    await sharing.has(rules="s", mounts="s", guest="s")
    assert await sharing.cloud.complaints() == []


async def test_access_that_was_granted_only_at_the_second_try_is_revoked_with_the_move(
    cloud: SharingCloud,
) -> None:
    sharing = await server_with_shares(cloud, await cloud.make_share(), await cloud.make_share())
    for storage in cloud.storages():
        storage.knobs.fail("grant", Invalid("not here"))
    refuse(sharing, "mount")
    await sharing.act("migrate", {"host": sharing.destination})
    assert (await sharing.status(), await sharing.host()) == ("ACTIVE", sharing.source)
    await sharing.has(rules="s", mounts="s", guest="s")
    assert await cloud.complaints() == []


async def test_a_source_that_was_forced_down_owes_its_unmount_and_loses_its_access(
    sharing: Sharing,
) -> None:
    await sharing.act("migrate", {"host": sharing.destination})
    await force_down(sharing.cloud, sharing.source, down=True)
    await sharing.act("confirmResize")
    assert await sharing.status() == "ACTIVE"
    await sharing.has(rules="d", mounts="sd", guest="d")
    await sharing.cloud.look_at_hosts()
    await sharing.cloud.settle()
    await force_down(sharing.cloud, sharing.source, down=False)
    await sharing.has(rules="d", mounts="d", guest="d")
    assert await sharing.cloud.complaints() == []


async def test_a_reset_before_the_user_s_word_leaves_shares_where_the_server_is(
    sharing: Sharing,
) -> None:
    await sharing.act("migrate", {"host": sharing.destination})
    await sharing.act("os-resetState", {"state": "active"})
    assert (await sharing.status(), await sharing.host()) == ("ACTIVE", sharing.destination)
    await sharing.has(rules="d", mounts="d", guest="d")
    assert await sharing.cloud.complaints() == []


@pytest.mark.parametrize("state", ["active", "error"])
async def test_a_reset_of_a_server_that_is_being_deleted_has_its_host_let_go_of_its_shares(
    sharing: Sharing, state: str
) -> None:
    refusal = Refusal(sharing.cloud, "deny_access")
    refusal.silent = True
    path = f"/servers/{sharing.server_id}"
    assert (await sharing.cloud.ask("DELETE", path)).status == 204
    await sharing.cloud.pass_time(5.0)
    await sharing.begin("os-resetState", {"state": state})
    refusal.is_on = False
    await sharing.cloud.settle()
    assert await sharing.status() == "ERROR"
    assert set((await sharing.mappings()).values()) == {"inactive"}
    await sharing.has(rules="", mounts="", guest="")
    assert await sharing.cloud.complaints() == []
    assert (await sharing.cloud.ask("DELETE", path)).status == 204
    await sharing.cloud.settle()
    await sharing.leaves_no_trace()


# -- what no server needs ----------------------------------------------------------------------


async def test_rules_and_mounts_that_no_server_needs_are_shown_and_taken_away(
    cloud: SharingCloud,
) -> None:
    share = await cloud.make_share()
    await leak(cloud, share, "host1")
    told = " ".join(await cloud.complaints())
    assert "that no server needs" in told
    assert "mounted on host host1" in told
    await sweep_shares.sweep_once(cloud.compute)
    await cloud.settle()
    assert (await cloud.rules(share), await cloud.mounts("host1")) == ({}, [])
    assert await cloud.complaints() == []


async def rule_of(cloud: SharingCloud, share: str) -> str:
    path = f"/share-access-rules?share_id={share}"
    [rule] = (await cloud.share_api("GET", path, user="admin")).body["access_list"]
    return str(rule["id"])


async def test_a_rule_goes_whatever_its_users_made_of_its_metadata(cloud: SharingCloud) -> None:
    server_id, share = await cloud.make_shared()
    other, left = await cloud.make_shared()
    for one in (share, left):
        path = f"/share-access-rules/{await rule_of(cloud, one)}/metadata/made_by"
        assert (await cloud.share_api("DELETE", path)).status == 200
    await cloud.remove_share(server_id, share)
    await cloud.settle()
    assert await cloud.rules(share) == {}
    # And one that leaked: its server is forgotten with all that it had.
    await cloud.compute.store.write(lambda tx: tx.execute(delete(ShareMapping)))
    told = " ".join(await cloud.complaints())
    assert f"in to share {left}, that no server needs" in told, other
    await sweep_shares.sweep_once(cloud.compute)
    await cloud.settle()
    assert await cloud.rules(left) == {}


@pytest.mark.parametrize("named", ["before", "meanwhile"])
async def test_a_user_s_rule_stays_whatever_its_metadata_says(
    cloud: SharingCloud, named: str
) -> None:
    server_id, share = await cloud.make_stopped(), await cloud.make_share()
    host = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
    mark = access_rules.MARK if named == "before" else {}
    rule_id = await cloud.allow(share, await address_of(cloud, host), metadata=mark)
    await cloud.add_share(server_id, share)
    await cloud.settle()
    body = {"metadata": access_rules.MARK}
    await cloud.share_api("PUT", f"/share-access-rules/{rule_id}/metadata", body)
    await cloud.remove_share(server_id, share)
    await cloud.settle()
    await sweep_shares.sweep_once(cloud.compute)
    await cloud.settle()
    assert list((await cloud.rules(share)).values()) == ["active"]
    assert await rule_of(cloud, share) == rule_id


async def test_what_servers_need_and_what_users_allowed_is_not_swept(sharing: Sharing) -> None:
    cloud, [share] = sharing.cloud, sharing.shares
    await cloud.allow(share, await address_of(cloud, sharing.destination))
    await cloud.allow(share, "10.9.9.9")
    await sharing.act("migrate", {"host": sharing.destination})
    before, rules = await sharing.see(), await cloud.rules(share)
    for _ in range(2):
        await sweep_shares.sweep_once(cloud.compute)
        await cloud.settle()
    assert (await sharing.see(), await cloud.rules(share)) == (before, rules)
    await sharing.act("confirmResize")
    await sweep_shares.sweep_once(cloud.compute)
    await cloud.settle()
    assert set(await cloud.rules(share)) == {
        await address_of(cloud, sharing.destination),
        "10.9.9.9",
    }


async def test_a_cloud_without_shares_is_not_told_that_every_minute(
    cloud: SharingCloud, capsys: pytest.CaptureFixture[str]
) -> None:
    await sweep_shares.sweep_once(cloud.compute)
    assert "access rules were not seen" not in capsys.readouterr().out


# -- draining ----------------------------------------------------------------------------------


async def test_a_drain_moves_stopped_servers_with_shares_and_says_why_the_others_stay(
    cloud: SharingCloud,
) -> None:
    stopped = await server_with_shares(cloud, await cloud.make_share(), runs=False)
    for host in cloud.hosts:
        await switch(cloud, host, "enabled" if host == stopped.source else "disabled")
    running = await server_with_shares(cloud, await cloud.make_share())
    for host in cloud.hosts:
        await switch(cloud, host, "enabled")
    assert running.source == stopped.source
    path, body = f"/mooring/drains/{stopped.source}", {}
    assert (await cloud.ask("PUT", path, body, user="admin")).status < 300
    for _ in range(20):
        await draining.advance_all(cloud.compute)
        await cloud.settle()
        await cloud.pass_time(5.0)
        await cloud.look_at_hosts()
    assert await stopped.host() != stopped.source
    assert (await stopped.status(), await running.status()) == ("SHUTOFF", "ACTIVE")
    assert await running.host() == running.source
    shown = await draining.show(cloud.compute, stopped.source)
    assert shown.status == "drained"
    [left] = shown.left
    assert (left.id, "shares" in left.reason) == (running.server_id, True)


async def test_the_stock_versions_do_not_see_a_difference_once_shares_are_gone(
    sharing: Sharing,
) -> None:
    await sharing.act("os-stop")
    await sharing.cloud.remove_share(sharing.server_id, sharing.shares[0])
    await sharing.cloud.settle()
    await sharing.act("migrate", version=OLD)
    assert await sharing.status() == "VERIFY_RESIZE"
