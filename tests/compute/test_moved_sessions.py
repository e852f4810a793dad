"""Servers move whose volumes share a host's session: it lasts as long as one of them needs it.

Source: specs 001, "shared_targets"; one host's attach and detach are in test_shared_connections.py.
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
