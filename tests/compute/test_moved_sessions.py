"""Servers move whose volumes share a host's session: it lasts as long as one of them needs it.

So do volumes that take the place of others under a guest, at its host. Source: specs 001,
"shared_targets"; one host's attach and detach are in test_shared_connections.py.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent.settings import PoolSettings
from mooring.compute.hosts.loops import watch_hosts
from tests.compute.cloud import ComputeCloud
from tests.compute.moving import Moving, server_that_moves
from tests.compute.moving_volumes import FAR, FAST, MovingVolumes
from tests.compute.swapping import prepare, swap
from tests.compute.verifying import ask, force_down, migrate

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2")


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncIterator[ComputeCloud]:
    """Two hosts whose pools' volumes share a session at each host."""
    opened = ComputeCloud(tmp_path, hosts=HOSTS, database=database)
    for name in HOSTS:
        pools = tuple(replace(pool, shared_targets=True) for pool in opened.hosts[name].pools)
        pools = pools or (PoolSettings(driver="simulated", shared_targets=True),)
        opened.hosts[name] = replace(opened.hosts[name], pools=pools)
    async with opened:
        yield opened


async def fit(cloud: ComputeCloud) -> None:
    """See that a host has sessions if and only if it has volumes."""
    for host in HOSTS:
        sessions = cloud.agents[host].agent.connections.targets.sessions()
        assert bool(sessions) is bool(await cloud.connections(host)), (host, sessions)


async def live(goes: Moving) -> None:
    await goes.move()


async def confirmed(goes: Moving) -> None:
    await migrate(goes)
    await fit(goes.cloud)
    assert await ask(goes, "confirmResize") == 204


async def reverted(goes: Moving) -> None:
    await migrate(goes)
    await fit(goes.cloud)
    assert await ask(goes, "revertResize") == 202
    goes.destination = goes.source


async def shelved(goes: Moving) -> None:
    assert await ask(goes, "shelve") == 202
    await fit(goes.cloud)
    value = {"host": goes.destination}
    assert await ask(goes, "unshelve", value, user="admin", version="2.91") == 202


@pytest.mark.parametrize("move", [live, confirmed, reverted, shelved])
async def test_a_session_lasts_while_a_server_that_stays_needs_it(
    cloud: ComputeCloud, move: Callable[[Moving], Awaitable[None]]
) -> None:
    stays, goes = [await server_that_moves(cloud, volumes=2) for _ in range(2)]
    if stays.source != goes.source:
        await goes.move(host=stays.source)
        goes.source, goes.destination = goes.destination, goes.source
    for one in (goes, stays):
        await move(one)
        assert await one.host() == one.destination
        assert (await cloud.server(one.server_id))["status"] == "ACTIVE"
        assert set(await cloud.connections(one.destination)) >= set(one.volumes)
        await fit(cloud)
    assert await cloud.complaints() == []


async def test_a_host_that_is_back_from_the_dead_has_none_of_what_was_evacuated(
    cloud: ComputeCloud,
) -> None:
    goes = await server_that_moves(cloud)
    cloud.hypervisor(goes.source).crash(goes.server_id)
    await force_down(cloud, goes.source, down=True)
    assert await ask(goes, "evacuate", {}, user="admin", version="2.94") == 200
    for _ in range(2):
        await watch_hosts.look_once(cloud.compute)
        await cloud.settle()
    await force_down(cloud, goes.source, down=False)
    assert await goes.connected() == [0, 2]
    await fit(cloud)
    assert await cloud.complaints() == []


async def test_a_session_lasts_when_both_volumes_of_a_swap_need_it(cloud: ComputeCloud) -> None:
    """Not removing an in use connection too early: the old one leaves as the new one is there."""
    server_id, old, new = await prepare(cloud)
    host = (await cloud.server(server_id))["OS-EXT-SRV-ATTR:host"]
    targets = cloud.agents[host].agent.connections.targets
    (before,) = targets.sessions()
    assert (await swap(cloud, server_id, old, new)).status == 202
    await cloud.settle()
    assert await cloud.disks(server_id, host) == [new]
    assert targets.sessions() == [before]
    assert targets.knobs.passed.get("log_out", 0) == 0
    assert (await cloud.detach(server_id, new)).status == 202
    await cloud.settle()
    assert targets.sessions() == []


@pytest.mark.parametrize("pool", [FAST, FAR])
async def test_a_volume_that_is_migrated_leaves_the_session_of_its_backend_for_another_s(
    tmp_path: Path, pool: str
) -> None:
    """Of pools of one backend the session is one; of another backend it is another."""
    cloud = MovingVolumes(tmp_path)
    for name, settings in cloud.hosts.items():
        pools = tuple(replace(one, shared_targets=True) for one in settings.pools)
        cloud.hosts[name] = replace(settings, pools=pools)
    async with cloud:
        server_id, volume_id = await cloud.prepare()
        targets = cloud.agents["host1"].agent.connections.targets
        before = targets.sessions()
        assert (await cloud.migrate(volume_id, pool)).status == 202
        await cloud.settle()
        await cloud.check(server_id, volume_id, "success", pool)
        path = f"/volumes/{volume_id}"
        shown = (await cloud.volume_api("GET", path, version="3.48"))["volume"]
        assert targets.sessions() == [shown["service_uuid"]]
        assert (targets.sessions() == before) is (pool == FAST)
        assert (await cloud.detach(server_id, volume_id)).status == 202
        await cloud.settle()
        assert targets.sessions() == []
