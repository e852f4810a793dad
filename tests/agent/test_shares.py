"""What a host does with verbs about shares, beside the contract of its drivers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from msgspec.structs import replace

from mooring.agent.app import open_agent
from mooring.agent.settings import AgentSettings, SharePoolSettings
from mooring.agent.share_drivers.simulated import SimulatedShares
from mooring.agent.waiting import until
from mooring.agent_api.client import AgentClient, Agents
from mooring.agent_api.shares import AccessRule, ShareSnapshotName, ShareSpec
from mooring.errors import Conflict, Invalid, NotFound, Unavailable
from mooring.fence.operation import Operation
from tests.agent.hosts import new_id, operation

pytestmark = pytest.mark.anyio
NFS, CEPHFS = "files", "ceph"
RULE = AccessRule(pool=NFS, type="ip", to="10.9.0.1")


@asynccontextmanager
async def share_host(directory: Path) -> AsyncGenerator[tuple[AgentClient, Any]]:
    """A host with two pools, and nothing else."""
    settings = AgentSettings(
        name="host-1",
        state_dir=directory,
        hypervisor="simulated",
        roles=("share",),
        share_pools=(
            SharePoolSettings(name=NFS, driver="simulated", total_gib=100),
            SharePoolSettings(name=CEPHFS, driver="simulated", protocol="CEPHFS"),
        ),
    )
    async with open_agent(settings) as running:
        yield Agents().in_process("host-1", running.app), running.agent


def spec(size_gb: int = 1, pool: str = NFS, snapshot: ShareSnapshotName | None = None) -> ShareSpec:
    protocol: Literal["NFS", "CEPHFS"] = "CEPHFS" if pool == CEPHFS else "NFS"
    return ShareSpec(pool=pool, protocol=protocol, size_gb=size_gb, snapshot=snapshot)


def driver_of(agent: Any, pool: str = NFS) -> SimulatedShares:
    driver = agent.share_drivers[pool]
    assert isinstance(driver, SimulatedShares)
    return driver


async def test_a_host_tells_of_its_pools_and_shares(tmp_path: Path) -> None:
    async with share_host(tmp_path) as (client, _):
        host = await client.host()
        assert (host.roles, host.pools) == (["share"], [])
        assert [(one.name, one.protocol) for one in host.share_pools] == [
            (NFS, "NFS"),
            (CEPHFS, "CEPHFS"),
        ]
        share_id = new_id()
        made = await client.put_share(share_id, spec(), operation=operation())
        shown = await client.show_share(share_id)
        assert shown is not None
        assert shown.exports == made.exports
        inventory = await client.inventory()
        assert (inventory.shares, inventory.unread_share_pools) == ([shown], [])
        assert await client.show_share(new_id()) is None


async def test_what_cannot_be_made_leaves_no_trace(tmp_path: Path) -> None:
    wrong = [
        (spec(pool="none"), NotFound, "has no pool of shares none"),
        (spec(0), Invalid, "1 to"),
        (spec(2**31), Invalid, "1 to"),
        (replace(spec(), protocol="CEPHFS"), Invalid, "not of CEPHFS"),
        (spec(snapshot=ShareSnapshotName("../x", "n")), NotFound, "no such snapshot"),
        (spec(snapshot=ShareSnapshotName(new_id(), new_id())), NotFound, "has no snapshot"),
    ]
    async with share_host(tmp_path) as (client, _):
        for body, kind, told in wrong:
            with pytest.raises(kind, match=told):
                await client.put_share(new_id(), body, operation=operation())
        inventory = await client.inventory()
        assert (inventory.shares, inventory.leftovers) == ([], [])


async def test_a_pool_that_is_gone_is_told(tmp_path: Path) -> None:
    async with share_host(tmp_path) as (client, _):
        for call in (
            client.delete_share("s1", "gone", operation=operation()),
            client.resize_share("s1", "gone", 2, operation=operation()),
            client.revoke_access("s1", "r1", "gone", operation=operation()),
            client.put_share_snapshot("s1", "n1", "gone", operation=operation()),
            client.delete_share_snapshot("s1", "n1", "gone", operation=operation()),
        ):
            with pytest.raises(NotFound, match="Nothing was changed"):
                await call


async def test_a_share_lives_its_life_by_verbs(tmp_path: Path) -> None:
    async with share_host(tmp_path) as (client, agent):
        share_id, rule_id, snapshot_id, other_id = (new_id() for _ in range(4))
        await client.put_share(share_id, spec(2), operation=operation())
        granted = await client.grant_access(share_id, rule_id, RULE, operation=operation())
        assert granted.access_key is None
        driver_of(agent).write(share_id, 2**30)
        assert (await client.resize_share(share_id, NFS, 3, operation=operation())).size_gb == 3
        await client.put_share_snapshot(share_id, snapshot_id, NFS, operation=operation())
        source = ShareSnapshotName(share_id, snapshot_id)
        await client.put_share(other_id, spec(3, snapshot=source), operation=operation())
        shown = await client.show_share(other_id)
        assert shown is not None
        assert (shown.used_bytes, shown.rules) == (2**30, [])
        with pytest.raises(Conflict, match="delete those first"):
            await client.delete_share(share_id, NFS, operation=operation())
        await client.delete_share_snapshot(share_id, snapshot_id, NFS, operation=operation())
        await client.revoke_access(share_id, rule_id, NFS, operation=operation())
        for each in (share_id, other_id):
            await client.delete_share(each, NFS, operation=operation())
        assert (await client.inventory()).shares == []


async def test_a_shrink_below_the_content_is_refused_with_a_code(tmp_path: Path) -> None:
    async with share_host(tmp_path) as (client, agent):
        share_id = new_id()
        await client.put_share(share_id, spec(3), operation=operation())
        driver_of(agent).write(share_id, 2**31)
        with pytest.raises(Conflict, match="left as it is") as caught:
            await client.resize_share(share_id, NFS, 1, operation=operation())
        assert caught.value.detail["code"] == "share_in_use_space"
        shown = await client.show_share(share_id)
        assert shown is not None
        assert shown.size_gb == 3


async def test_a_key_is_given_and_stands_in_no_journal(tmp_path: Path) -> None:
    rule = AccessRule(pool=CEPHFS, type="cephx", to="alice", project_id="p1")
    async with share_host(tmp_path) as (client, agent):
        share_id, named = new_id(), operation()
        await client.put_share(share_id, spec(pool=CEPHFS), operation=operation())
        given = await client.grant_access(share_id, "r1", rule, operation=named)
        assert given.access_key
        assert await client.grant_access(share_id, "r1", rule, operation=named) == given
        assert driver_of(agent, CEPHFS).knobs.passed["grant"] == 2
    assert given.access_key.encode() not in read_journal(tmp_path)


def read_journal(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.glob("journal.sqlite*"))


async def test_a_late_grant_is_fenced_off(tmp_path: Path) -> None:
    async with share_host(tmp_path) as (client, agent):
        share_id, saga = new_id(), new_id()
        await client.put_share(share_id, spec(), operation=operation())
        named = Operation(saga, "grant", 1, 1000)
        await client.revoke_access(share_id, "r1", NFS, operation=named)
        with pytest.raises(Conflict) as gone:
            await client.grant_access(share_id, "r1", RULE, operation=named)
        assert gone.value.detail["status"] == 410
        older = Operation(new_id(), "grant", 1, 999)
        with pytest.raises(Conflict) as outdated:
            await client.grant_access(share_id, "r1", RULE, operation=older)
        assert outdated.value.detail["status"] == 412
        assert driver_of(agent).ledger() == []


async def test_a_late_resize_and_a_late_making_are_fenced_off(tmp_path: Path) -> None:
    async with share_host(tmp_path) as (client, _):
        share_id, late = new_id(), operation()
        await client.put_share(share_id, spec(), operation=operation())
        await client.forget_share_size(share_id, NFS, operation=late)
        with pytest.raises(Conflict) as gone:
            await client.resize_share(share_id, NFS, 2, operation=late)
        assert gone.value.detail["status"] == 410
        other_id, named = new_id(), operation()
        await client.claim_share(other_id, operation=operation())
        with pytest.raises(Conflict) as outdated:
            await client.put_share(other_id, spec(), operation=named)
        assert outdated.value.detail["status"] == 412
        assert [one.size_gb for one in (await client.inventory()).shares] == [1]


async def test_a_deletion_ends_what_is_under_way_on_its_share(tmp_path: Path) -> None:
    async with share_host(tmp_path) as (client, agent):
        share_id = new_id()
        await client.put_share(share_id, spec(), operation=operation())
        knobs = driver_of(agent).knobs
        knobs.hold("grant")
        granting = asyncio.create_task(
            client.grant_access(share_id, "r1", RULE, operation=operation())
        )
        assert await until(lambda: "grant" in knobs.passed, 10)
        await client.delete_share(share_id, NFS, operation=operation())
        with pytest.raises(Conflict):
            await granting
        assert (await client.inventory()).shares == []
        assert driver_of(agent).ledger() == []


async def test_calls_about_one_share_come_one_after_the_other(tmp_path: Path) -> None:
    async with share_host(tmp_path) as (client, agent):
        share_id, other_id = new_id(), new_id()
        for each in (share_id, other_id):
            await client.put_share(each, spec(), operation=operation())
        knobs = driver_of(agent).knobs
        knobs.hold("resize")
        first = asyncio.create_task(client.resize_share(share_id, NFS, 2, operation=operation()))
        assert await until(lambda: "resize" in knobs.passed, 10)
        second = asyncio.create_task(
            client.grant_access(share_id, "r1", RULE, operation=operation())
        )
        await client.grant_access(other_id, "r2", RULE, operation=operation())
        assert knobs.passed["grant"] == 1
        knobs.release("resize")
        await asyncio.gather(first, second)
        assert knobs.passed["grant"] == 2


async def test_a_pool_that_does_not_answer_hides_no_other(tmp_path: Path) -> None:
    async with share_host(tmp_path) as (client, agent):
        await client.put_share("s1", spec(pool=CEPHFS), operation=operation())

        class Silent(SimulatedShares):
            async def stats(self) -> Any:
                raise Unavailable("The storage is silent.")

            async def shares(self) -> Any:
                raise Unavailable("The storage is silent.")

            async def find(self, share_id: str) -> Any:
                raise Unavailable(f"The storage is silent about {share_id}.")

        known = driver_of(agent)
        agent.share_drivers[NFS] = Silent(known.pool, tmp_path / "x", "127.0.0.1")
        pools = (await client.host()).share_pools
        assert [one.problem for one in pools] == ["The storage is silent.", ""]
        inventory = await client.inventory()
        assert [one.share_id for one in inventory.shares] == ["s1"]
        assert inventory.unread_share_pools == [NFS]
        assert await client.show_share("s1") is not None
        with pytest.raises(Unavailable, match="silent about s2"):
            await client.show_share("s2")
