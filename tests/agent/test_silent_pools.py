"""A pool of volumes that does not answer stands in the way of no other one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest
from msgspec import Struct

from mooring.agent.app import open_agent
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.settings import AgentSettings, PoolSettings
from mooring.agent_api.client import AgentClient, Agents
from mooring.agent_api.snapshots import SnapshotSpec
from mooring.agent_api.volumes import VolumeSpec
from mooring.errors import Conflict, Unavailable
from tests.agent.hosts import new_id, operation

pytestmark = pytest.mark.anyio
SILENT = Unavailable("The storage is silent.")


class Site(Struct, frozen=True):
    """A host with two pools, the first of which is silent, and a volume in the second."""

    client: AgentClient
    volume_id: str
    silent: SimulatedDriver


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[Site]:
    pools = tuple(PoolSettings(name=name, driver="simulated") for name in ("gone", "good"))
    settings = AgentSettings(
        name="h", state_dir=tmp_path, hypervisor="simulated", roles=("volume",), pools=pools
    )
    async with open_agent(settings) as running:
        client, volume_id = Agents().in_process("h", running.app), new_id()
        spec = VolumeSpec(pool="good", size_gib=1)
        await client.put_volume(volume_id, spec, operation=operation())
        await client.put_snapshot(volume_id, "s0", SnapshotSpec("taken"), operation=operation())
        silent = running.agent.drivers["gone"]
        assert isinstance(silent, SimulatedDriver)
        for point in ("find", "volumes", "stats"):
            silent.knobs.fail(point, SILENT, times=100)
        yield Site(client, volume_id, silent)


VERBS: dict[str, Callable[[AgentClient, str], Awaitable[object]]] = {
    "show": lambda client, of: client.show_volume(of),
    "show snapshot": lambda client, of: client.show_snapshot(of, "s0"),
    "take": lambda client, of: client.put_snapshot(
        of, "s1", SnapshotSpec("taken"), operation=operation()
    ),
    "revert": lambda client, of: client.revert_volume(of, "s0", operation=operation()),
    "merge": lambda client, of: client.delete_snapshot(of, "s0", operation=operation()),
    "extend": lambda client, of: client.extend_volume(of, 2, operation=operation()),
    "holders": lambda client, of: client.show_holders(of),
    "unexport": lambda client, of: client.unexport_volume(of, "a1", operation=operation()),
    "delete": lambda client, of: client.delete_volume(of, operation=operation()),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_volume_of_another_pool_is_reached(site: Site, verb: str) -> None:
    await VERBS[verb](site.client, site.volume_id)
    assert site.silent.knobs.passed["find"]
    # What is nowhere else may be in the one that does not answer.
    with pytest.raises(Unavailable, match="silent"):
        await VERBS[verb](site.client, new_id())


async def test_a_merge_that_nobody_made_is_refused_by_the_pool_that_has_the_volume(
    site: Site,
) -> None:
    with pytest.raises(Conflict, match="are not merged"):
        await site.client.record_merge(site.volume_id, "s0", operation=operation())
    assert site.silent.knobs.passed["find"]
    with pytest.raises(Unavailable, match="silent"):
        await site.client.record_merge(new_id(), "s0", operation=operation())


async def test_the_inventory_names_the_silent_pool_and_shows_the_others(site: Site) -> None:
    seen = await site.client.inventory()
    assert [volume.volume_id for volume in seen.volumes] == [site.volume_id]
    assert seen.unread_pools == ["gone"]
    assert [pool.problem for pool in (await site.client.host()).pools] == [SILENT.public, ""]
