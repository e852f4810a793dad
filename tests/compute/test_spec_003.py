"""What specs 003 says of cold moves with shares: its functional tests, and each of its sections.

Where rules and mounts are after each step is the table of facts/shared_file_systems.md 7.2; the
traps are those of facts/compute.md 7.7.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent.settings import GuestShareSettings, MountSettings
from mooring.compute.moves.loops import confirm_resizes
from tests.compute.shared_moves import (
    Sharing,
    count_locks,
    fault,
    gives,
    record,
    refuse,
    server_with_shares,
    sharing_cloud,
    sharing_server,
    switch,
    takes,
)
from tests.compute.sharing import SharingCloud
from tests.kept import Keeper

pytestmark = pytest.mark.anyio
LARGER = "84"
"""A flavor with more memory and as large a disk."""
MOVES = [("migrate", None), ("resize", {"flavorRef": LARGER})]


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[SharingCloud]:
    async with sharing_cloud(tmp_path) as opened:
        yield opened


@pytest.fixture
async def sharing(keeper: Keeper) -> AsyncGenerator[Sharing]:
    """A server that runs with two shares."""
    async with sharing_server(keeper, shares=2) as made:
        yield made


# -- functional tests: success -----------------------------------------------------------------


async def test_shares_are_mounted_on_the_destination_and_in_the_guest_s_definition(
    sharing: Sharing,
) -> None:
    await sharing.has(rules="s", mounts="s", guest="s")
    await sharing.act("migrate")
    assert (await sharing.status(), await sharing.host()) == ("VERIFY_RESIZE", sharing.destination)
    await sharing.has(rules="sd", mounts="sd", guest="d")


async def test_the_source_is_cleaned_up_on_confirm(sharing: Sharing) -> None:
    await sharing.act("migrate")
    await sharing.act("confirmResize")
    assert await sharing.status() == "ACTIVE"
    await sharing.has(rules="d", mounts="d", guest="d")
    assert await count_locks(sharing) == 2 * len(sharing.shares)


# -- functional tests: revert ------------------------------------------------------------------


async def test_revert_cleans_up_the_destination_and_the_guest_restarts_with_shares_on_the_source(
    sharing: Sharing,
) -> None:
    await sharing.act("migrate")
    await sharing.act("revertResize")
    assert (await sharing.status(), await sharing.host()) == ("ACTIVE", sharing.source)
    await sharing.has(rules="s", mounts="s", guest="s")
    assert await count_locks(sharing) == 2 * len(sharing.shares)


# -- functional tests: partial failure ---------------------------------------------------------


@pytest.mark.parametrize("fails", ["mount", "hang", "grant", "define"])
async def test_a_partial_failure_cleans_up_the_destination_and_revokes_its_access(
    sharing: Sharing, fails: str
) -> None:
    """The second share, or the guest itself, cannot be had there."""
    refuse(sharing, fails)
    await sharing.act("migrate")
    assert (await sharing.status(), await sharing.host()) == ("ACTIVE", sharing.source)
    await sharing.has(rules="s", mounts="s", guest="s")
    assert ("migrate", "Error") in await sharing.cloud.actions(sharing.server_id)
    assert await sharing.cloud.complaints() == []


async def test_a_guest_whose_shares_cannot_be_had_elsewhere_is_never_off(sharing: Sharing) -> None:
    refuse(sharing, "mount")
    calls = record(sharing.cloud)
    await sharing.act("migrate")
    assert any(gives(call) for call in calls)
    assert not [call for call in calls if call.endswith(("/power", f"/{sharing.server_id}"))]


# -- functional tests: mount path mismatch -----------------------------------------------------


def elsewhere(protocol: str = "NFS") -> MountSettings:
    bases = {"NFS": {"nfs_mount_point_base": "/elsewhere"}}
    bases["CEPHFS"] = {"cephfs_mount_point_base": "/elsewhere"}
    return MountSettings(shares=GuestShareSettings(**bases[protocol]))


@pytest.mark.parametrize("protocol", ["NFS", "CEPHFS"])
async def test_a_mount_path_mismatch_is_a_clear_error_before_anything_moves(
    cloud: SharingCloud, protocol: str
) -> None:
    """Equal bases are asked for of those protocols alone that the server has shares of."""
    sharing = await server_with_shares(cloud, await cloud.make_share(protocol))
    await cloud.change_host(sharing.destination, mounts=elsewhere(protocol))
    before = await sharing.see()
    for value in (None, {"host": sharing.destination}):
        answer = await sharing.ask("migrate", value)
        assert answer.status == 400
        said = f"{sharing.destination} is mounting {protocol} shares below /elsewhere"
        assert said in answer.text
        assert "Nothing was changed" in answer.text
    assert (await sharing.status(), await sharing.see()) == ("ACTIVE", before)
    other = {"NFS": "CEPHFS", "CEPHFS": "NFS"}[protocol]
    await cloud.change_host(sharing.destination, mounts=elsewhere(other))
    await sharing.act("migrate")
    assert (await sharing.status(), await sharing.host()) == ("VERIFY_RESIZE", sharing.destination)


async def test_a_resize_that_only_a_host_with_other_mounts_has_room_for_says_so(
    sharing: Sharing,
) -> None:
    await sharing.cloud.change_host(sharing.destination, mounts=elsewhere())
    await switch(sharing.cloud, sharing.source, "disabled")
    await sharing.act("resize", {"flavorRef": LARGER})
    assert await sharing.status() == "ACTIVE"
    await sharing.has(rules="s", mounts="s", guest="s")
    assert "1 mounting NFS shares below /elsewhere" in await fault(sharing)


# -- cold migration flow -----------------------------------------------------------------------


async def test_lazy_cleanup_the_source_keeps_mounts_and_access_until_the_user_s_word(
    sharing: Sharing,
) -> None:
    await sharing.act("migrate")
    source = await sharing.cloud.known_agents[sharing.source].inventory()
    assert [one.mounted for one in source.share_mounts] == [True, True]
    assert await sharing.cloud.known_agents[sharing.source].show_server(sharing.server_id) is None
    await sharing.has(rules="sd", mounts="sd", guest="d")


async def test_access_is_granted_before_a_share_is_mounted_and_both_before_the_guest_is_defined(
    sharing: Sharing,
) -> None:
    calls = record(sharing.cloud)
    await sharing.act("migrate")
    defined = f"{sharing.destination} PUT /servers/{sharing.server_id}"
    given = [call for call in calls if gives(call) or call == defined]
    mounted = [f"{defined}/shares/{share}" for share in sharing.shares]
    assert given == ["allow_access", mounted[0], "allow_access", mounted[1], defined]


async def test_confirm_and_revert_unmount_before_they_revoke_and_only_what_no_guest_runs_with(
    sharing: Sharing,
) -> None:
    for word in ("revertResize", "confirmResize"):
        await sharing.act("migrate")
        calls = record(sharing.cloud)
        await sharing.act(word)
        taken = [call for call in calls if takes(call)]
        assert [call == "deny_access" for call in taken] == [False, True] * 2
        if word == "revertResize":
            ended = f"{sharing.destination} DELETE /servers/{sharing.server_id}"
            assert calls.index(ended) < calls.index(taken[0])


async def test_the_next_migration_goes_back_to_the_host_that_was_left(sharing: Sharing) -> None:
    """A rule that is being denied is waited out (facts/shared_file_systems.md 7.3, bounce)."""
    await sharing.act("migrate")
    await sharing.act("revertResize")
    await sharing.act("migrate")
    await sharing.act("confirmResize")
    await sharing.act("migrate", {"host": sharing.source})
    await sharing.act("confirmResize")
    assert (await sharing.status(), await sharing.host()) == ("ACTIVE", sharing.source)
    await sharing.has(rules="s", mounts="s", guest="s")


# -- a server that was stopped -----------------------------------------------------------------


@pytest.mark.parametrize("word", ["confirmResize", "revertResize"])
async def test_for_a_stopped_server_access_is_granted_and_nothing_is_mounted(
    cloud: SharingCloud, word: str
) -> None:
    sharing = await server_with_shares(cloud, await cloud.make_share(), runs=False)
    await sharing.has(rules="s", mounts="", guest="")
    await sharing.act("migrate")
    await sharing.has(rules="sd", mounts="", guest="")
    assert set((await sharing.mappings()).values()) == {"inactive"}
    await sharing.act(word)
    stays = "d" if word == "confirmResize" else "s"
    assert await sharing.status() == "SHUTOFF"
    await sharing.has(rules=stays, mounts="", guest="")
    await sharing.act("os-start")
    assert set((await sharing.mappings()).values()) == {"active"}
    await sharing.has(rules=stays, mounts=stays, guest=stays)


# -- same-host resize --------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["confirmResize", "revertResize"])
async def test_on_the_same_host_nothing_is_granted_mounted_unmounted_revoked_or_unlocked(
    sharing: Sharing, word: str
) -> None:
    calls = record(sharing.cloud)
    await sharing.act("resize", {"flavorRef": LARGER})
    assert (await sharing.status(), await sharing.host()) == ("VERIFY_RESIZE", sharing.source)
    await sharing.has(rules="s", mounts="s", guest="s")
    await sharing.act(word)
    assert await sharing.status() == "ACTIVE"
    await sharing.has(rules="s", mounts="s", guest="s")
    assert not [call for call in calls if takes(call) or gives(call)]
    assert await count_locks(sharing) == 2 * len(sharing.shares)


# -- access that others need -------------------------------------------------------------------


async def test_confirm_spares_what_another_server_on_the_source_needs(cloud: SharingCloud) -> None:
    share = await cloud.make_share()
    first = await server_with_shares(cloud, share)
    await switch(cloud, first.destination, "disabled")
    second = await server_with_shares(cloud, share)
    assert second.source == first.source
    await switch(cloud, first.destination, "enabled")
    await first.act("migrate")
    await first.act("confirmResize")
    assert await first.rules(share) == {first.source, first.destination}
    assert (await first.see()).mounts == [{first.destination}]
    assert (await second.see()).mounts == [{first.source}]
    await second.act("migrate")
    await second.act("confirmResize")
    assert await first.rules(share) == {first.destination}


async def test_cephfs_access_is_deduplicated_and_preserved_while_any_server_uses_the_share(
    cloud: SharingCloud,
) -> None:
    share = await cloud.make_share("CEPHFS")
    first, second = [await server_with_shares(cloud, share) for _ in range(2)]
    rules = await first.rules(share)
    assert len(rules) == 1
    for word in ("revertResize", "confirmResize"):
        await first.act("migrate")
        assert await first.rules(share) == rules
        assert (await first.see()).mounts == [{first.source, first.destination}]
        await first.act(word)
        assert await first.rules(share) == rules
    assert (await first.see()).mounts == [{first.destination}]
    for one in (first, second):
        await cloud.ask("DELETE", f"/servers/{one.server_id}")
        await cloud.settle()
    assert await first.rules(share) == set()


# -- statuses and notifications ----------------------------------------------------------------


@pytest.mark.parametrize("word", ["confirmResize", "revertResize"])
async def test_no_status_changes_and_no_share_notification_is_sent_on_the_way(
    tmp_path: Path, word: str
) -> None:
    async with sharing_cloud(tmp_path, notifications=("keep",)) as cloud:
        sharing = await server_with_shares(cloud, await cloud.make_share())
        before, rows = await cloud.told("compute"), await sharing.mappings()
        await sharing.act("migrate")
        assert await sharing.mappings() == rows
        await sharing.act(word)
        assert await sharing.mappings() == rows
        told = [one.event_type for one in await cloud.told("compute")]
        assert len(told) > len(before)
        assert not [event for event in told[len(before) :] if "share" in event]


# -- deletion, auto-confirm, reset -------------------------------------------------------------


@pytest.mark.parametrize("runs", [True, False])
async def test_deletion_before_the_user_s_word_cleans_both_hosts(
    cloud: SharingCloud, *, runs: bool
) -> None:
    sharing = await server_with_shares(cloud, await cloud.make_share(), runs=runs)
    await sharing.act("migrate")
    assert (await cloud.ask("DELETE", f"/servers/{sharing.server_id}")).status == 204
    await cloud.settle()
    await sharing.leaves_no_trace()


async def test_what_is_confirmed_by_itself_is_cleaned_up_the_same_way(sharing: Sharing) -> None:
    compute = sharing.cloud.compute
    compute.settings = replace(compute.settings, resize_confirm_window=60.0)
    await sharing.act("migrate")
    await sharing.cloud.pass_time(120.0)
    await sharing.cloud.look_at_hosts()
    await confirm_resizes.confirm_once(compute)
    await sharing.cloud.settle()
    assert await sharing.status() == "ACTIVE"
    await sharing.has(rules="d", mounts="d", guest="d")
