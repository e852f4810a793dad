"""Shares at a host that a server has left and that is silent: what other servers have of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.callers import PROJECT
from tests.compute.shared_moves import (
    Refusal,
    Sharing,
    address_of,
    server_with_shares,
    sharing_cloud,
    switch,
)
from tests.compute.sharing import SharingCloud

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncGenerator[SharingCloud]:
    async with sharing_cloud(tmp_path, ("host1", "host2", "host3"), database=database) as opened:
        yield opened


async def confirm(sharing: Sharing) -> None:
    """Confirm a move, and wait until the server is as it should be, whatever goes on beside it."""
    await sharing.begin("confirmResize")
    for _ in range(60):
        await sharing.cloud.pass_time(2.0)
        if await sharing.status() == "ACTIVE":
            return
    raise AssertionError(await sharing.status())


async def test_a_silent_host_that_a_server_has_left_keeps_no_other_from_starting(
    cloud: SharingCloud,
) -> None:
    """All hosts are let in to a share of CephFS by one client, the project's."""
    share = await cloud.make_share("CEPHFS")
    moved, other = [await server_with_shares(cloud, share) for _ in range(2)]
    await moved.act("migrate", {"host": moved.destination})
    cloud.silent = ("DELETE", f"/servers/{moved.server_id}/shares/")
    await confirm(moved)
    assert (moved.server_id, moved.source, "leaving") in await cloud.places()
    told = [one for one in await cloud.complaints() if share in one]
    assert ["still lets go of it, in operation" in one for one in told] == [True]
    for server in (other, moved):
        await server.begin("reboot", {"type": "HARD"})
        for _ in range(20):
            await cloud.pass_time(2.0)
            await cloud.look_at_hosts()
        assert (await server.status(), await server.mappings()) == ("ACTIVE", {share: "active"})
    assert (moved.server_id, moved.source, "leaving") in await cloud.places()
    cloud.silent = None
    await cloud.settle()
    assert sorted(await cloud.places()) == sorted(
        [
            (moved.server_id, moved.destination, "mounted"),
            (other.server_id, other.source, "mounted"),
        ]
    )
    assert await cloud.rules(share) == {f"mooring-{PROJECT}": "active"}
    assert await cloud.complaints() == []


async def test_a_rule_that_is_not_denied_is_relied_on_again(cloud: SharingCloud) -> None:
    """And whoever was to have it denied has nothing left to do."""
    share = await cloud.make_share()
    moved = await server_with_shares(cloud, share)
    for host in cloud.hosts:
        await switch(cloud, host, "enabled" if host == moved.source else "disabled")
    other = await cloud.make_stopped()
    for host in cloud.hosts:
        await switch(cloud, host, "enabled")
    await moved.act("migrate", {"host": moved.destination})
    Refusal(cloud, "deny_access")
    await confirm(moved)
    assert (await cloud.add_share(other, share)).status == 201
    await cloud.settle()
    assert await cloud.shares(other) == {share: "inactive"}
    addresses = {await address_of(cloud, host) for host in (moved.source, moved.destination)}
    assert await cloud.rules(share) == dict.fromkeys(addresses, "active")
    assert await cloud.unfinished() == []
    assert await cloud.complaints() == []
