"""What tests of clients and sagas can do with a simulated host."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mooring.agent.app import open_agent
from mooring.agent.drivers.simulated import SimulatedDriver
from mooring.agent.settings import AgentSettings, PoolSettings
from mooring.agent.simulated import SimulatedHypervisor
from mooring.agent_api.client import Agents
from mooring.errors import Conflict, Forbidden, NoCapacity, NotFound, Unavailable
from tests.agent.hosts import TestHost, new_id, open_host, operation

pytestmark = pytest.mark.anyio


def simulated(running: Any) -> SimulatedHypervisor:
    hypervisor = running.agent.hypervisor
    assert isinstance(hypervisor, SimulatedHypervisor)
    return hypervisor


async def test_a_host_reports_what_its_settings_say(tmp_path: Path) -> None:
    settings = AgentSettings(
        name="old",
        state_dir=tmp_path,
        hypervisor="simulated",
        version=23,
        hidden_traits=frozenset({"COMPUTE_VOLUME_MULTI_ATTACH"}),
        vcpus=2,
        pools=(PoolSettings(name="small", driver="simulated", total_gib=10),),
    )
    async with open_agent(settings) as running:
        host = await Agents().in_process("old", running.app).host()
    assert (host.version, host.vcpus, host.memory_mib) == (23, 2, 8192)
    assert "COMPUTE_VOLUME_MULTI_ATTACH" not in host.traits
    assert [(pool.name, pool.total_gib) for pool in host.pools] == [("small", 10)]


async def test_a_host_without_the_role_runs_no_guests(tmp_path: Path) -> None:
    settings = AgentSettings(
        name="store", state_dir=tmp_path, hypervisor="simulated", roles=("volume",)
    )
    async with open_agent(settings) as running:
        client = Agents().in_process("store", running.app)
        assert (await client.host()).hypervisor == ""
        assert (await client.inventory()).guests == []
        with pytest.raises(Forbidden, match="lacks the role compute"):
            await client.list_servers()


async def test_a_failed_call_may_be_tried_again(tmp_path: Path) -> None:
    async with open_host(tmp_path) as (host, running):
        server_id, disk, named = new_id(), await host.make_disk(), operation()
        await host.boot(server_id)
        simulated(running).knobs.fail("plug", Unavailable("Not now."))
        with pytest.raises(Unavailable, match=r"Not now\."):
            await host.client.plug_disk(server_id, disk, operation=named)
        assert (await host.client.plug_disk(server_id, disk, operation=named)).live


async def test_a_stubborn_guest_keeps_its_disk(tmp_path: Path) -> None:
    async with open_host(tmp_path) as (host, running):
        server_id, disk = new_id(), await host.make_disk()
        await host.boot(server_id, [disk])
        simulated(running).stubborn.add(disk.volume_id)
        with pytest.raises(Conflict, match="keeps volume"):
            await host.client.unplug_disk(server_id, disk.volume_id, operation=operation())
        guest = await host.client.show_server(server_id)
        assert guest is not None
        assert [(one.live, one.persistent) for one in guest.disks] == [(True, True)]


async def test_news_come_to_those_who_wait(tmp_path: Path) -> None:
    async with open_host(tmp_path) as (host, running):
        server_id = new_id()
        await host.boot(server_id)
        before = await host.client.events(0, 0)
        assert [event.kind for event in before.events] == ["agent_started", "guest_started"]
        waiting = asyncio.create_task(host.client.events(before.last, 20))
        await asyncio.sleep(0)
        simulated(running).crash(server_id)
        after = await waiting
        assert [(event.kind, event.server_id) for event in after.events] == [
            ("guest_crashed", server_id)
        ]
        assert (await host.client.events(after.last, 0)).events == []
    async with open_host(tmp_path) as (host, _):
        later = await host.client.events(after.last, 0)
        assert [event.kind for event in later.events] == ["agent_started"]


async def test_the_ledgers_tell_who_could_write_when(tmp_path: Path) -> None:
    async with open_host(tmp_path) as (host, running):
        server_id, disk = new_id(), await host.make_disk()
        await host.boot(server_id, [disk])
        simulated(running).shut_down_inside(server_id)
        written = simulated(running).ledger()
        assert [(one.volume_id, one.writer) for one in written] == [(disk.volume_id, server_id)]
        assert written[0].until is not None
        driver = running.agent.drivers["local"]
        assert isinstance(driver, SimulatedDriver)
        exported = driver.ledger()
        assert [(one.attachment_id, one.host) for one in exported] == [
            (disk.attachment_id, "host-1")
        ]
        assert exported[0].until is None


async def test_the_world_outlives_its_agent(tmp_path: Path) -> None:
    server_id = new_id()
    async with open_host(tmp_path) as (host, _):
        disk = await host.make_disk()
        guest = await host.boot(server_id, [disk])
    async with open_host(tmp_path) as (host, _):
        assert await host.client.show_server(server_id) == guest
        assert (await host.client.inventory()).connections[0].volume_id == disk.volume_id


async def test_a_full_pool_takes_nothing(tmp_path: Path) -> None:
    settings = AgentSettings(
        name="h",
        state_dir=tmp_path,
        hypervisor="simulated",
        pools=(PoolSettings(driver="simulated", total_gib=2, oversubscription=1),),
    )
    async with open_agent(settings) as running:
        host = TestHost(Agents().in_process("h", running.app), real=False)
        await host.make_disk()
        with pytest.raises(NoCapacity, match="has no room"):
            await host.make_disk()
        with pytest.raises(NotFound):
            await host.client.export_volume(new_id(), new_id(), {}, operation=operation())
