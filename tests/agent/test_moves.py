"""Guests on their way from one host to another, held in the middle by what is simulated.

What every hypervisor promises: tests/contract/test_moves.py.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from mooring.agent.app import RunningAgent
from mooring.agent.simulated import SimulatedHypervisor
from mooring.agent.waiting import until_told
from mooring.agent_api.disks import DiskSpec
from mooring.agent_api.mirrors import SwitchRequest
from mooring.agent_api.moves import Portrait
from mooring.errors import Conflict, Unavailable
from tests.agent.hosts import TestHost, new_id, open_host, operation, why_no_real_guests
from tests.agent.processes import agent_process

pytestmark = pytest.mark.anyio
PORTRAIT = Portrait(hypervisor="simulated", accelerator="simulated", version=1_000_000)


class Pair(Struct):
    """Two hosts, and a guest of the first one with a volume that both have connected."""

    here: TestHost
    there: TestHost
    source: RunningAgent
    destination: RunningAgent
    server_id: str
    disk: DiskSpec
    second: str

    async def states(self) -> tuple[str, str]:
        """Return what both hosts hold of the guest."""
        found = [await host.client.show_server(self.server_id) for host in (self.here, self.there)]
        first, second = ("absent" if guest is None else guest.state for guest in found)
        return first, second

    async def send(self) -> None:
        """Send the guest."""
        arrival = await self.there.client.show_arrival(self.server_id)
        await self.here.client.put_departure(self.server_id, arrival, operation=operation())

    async def is_on_its_way(self) -> bool:
        """Whether the guest is being sent."""
        return await self.states() == ("running", "prelaunched")

    @property
    def knobs(self) -> SimulatedHypervisor:
        """The hypervisor that sends."""
        found = self.source.agent.hypervisor
        assert isinstance(found, SimulatedHypervisor)
        return found


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncGenerator[Pair]:
    async with AsyncExitStack() as stack:
        here, source = await stack.enter_async_context(open_host(tmp_path / "a", name="a"))
        there, destination = await stack.enter_async_context(open_host(tmp_path / "b", name="b"))
        server_id, disk = new_id(), await here.make_disk()
        await here.boot(server_id, [disk])
        second = new_id()
        connector = await there.client.connector()
        connection = await here.client.export_volume(
            disk.volume_id, second, connector, operation=operation()
        )
        portrait = await here.client.show_portrait(server_id)
        await there.push_image()
        await there.client.put_arrival(server_id, portrait, operation=operation())
        await there.client.connect(
            second, disk.volume_id, connection, server_id=server_id, operation=operation()
        )
        yield Pair(here, there, source, destination, server_id, disk, second)


async def test_a_copy_that_nobody_waits_for_ends_before_its_guest_is_sent(pair: Pair) -> None:
    new, client = await pair.here.make_disk(), pair.here.client
    names = pair.server_id, pair.disk.volume_id
    await client.mirror_disk(*names, new, operation=operation())
    pair.knobs.knobs.hold("send_memory")
    sending = asyncio.create_task(pair.send())
    assert await until_told(pair.is_on_its_way, 60.0, pause_s=0.0)
    with pytest.raises(Conflict, match="ended before its time"):
        await client.mirroring(*names)
    pair.knobs.knobs.release("send_memory")
    await sending
    wanted = SwitchRequest(volume_id=new.volume_id, attachment_id=new.attachment_id)
    await pair.there.client.connect(
        new.attachment_id, new.volume_id, new.connection, operation=operation()
    )
    with pytest.raises(Conflict, match="ended before its time"):
        await pair.there.client.switch_disk(*names, wanted, operation=operation())


async def test_a_guest_on_its_way_is_prelaunched_and_its_progress_is_told(pair: Pair) -> None:
    pair.knobs.knobs.hold("send_memory")
    arrival = await pair.there.client.show_arrival(pair.server_id)
    named = operation()
    with pytest.raises(Unavailable) as late:
        await pair.here.client.put_departure(
            pair.server_id, arrival, operation=named, timeout_s=3.0
        )
    assert late.value.detail["goes_on"]
    assert await pair.states() == ("running", "prelaunched")
    assert (await pair.here.client.show_departure(pair.server_id)).memory_remaining_bytes > 0
    await pair.here.client.hasten_departure(pair.server_id, operation=operation())
    await pair.here.client.put_departure(pair.server_id, arrival, operation=named)
    assert await pair.states() == ("migrated", "running")
    assert (await pair.here.client.show_departure(pair.server_id)).memory_total_bytes == 0


async def test_a_cancelled_departure_leaves_the_guest_where_it_was(pair: Pair) -> None:
    pair.knobs.knobs.hold("send_memory")
    named, client = operation(), pair.here.client
    arrival = await pair.there.client.show_arrival(pair.server_id)
    sending = asyncio.create_task(client.put_departure(pair.server_id, arrival, operation=named))
    assert await until_told(pair.is_on_its_way, 60.0, pause_s=0.0)
    await client.cancel_departure(pair.server_id, operation=named)
    with pytest.raises(Conflict, match=r"ended|undone"):
        await sending
    assert await pair.states() == ("running", "absent")
    with pytest.raises(Conflict, match="undone"):
        await client.put_departure(pair.server_id, arrival, operation=named)
    await pair.there.client.delete_arrival(pair.server_id, operation=operation())
    await pair.there.client.disconnect(pair.second, operation=operation())
    assert await pair.states() == ("running", "absent")
    assert (await pair.there.client.inventory()).leftovers == []


async def test_a_guest_is_sent_only_where_a_disk_was_made_for_its_own(pair: Pair) -> None:
    """One that is missing, or of another size, is no disk to send to."""
    client, arrival = pair.here.client, await pair.there.client.show_arrival(pair.server_id)
    with pytest.raises(Conflict, match="made no root disk"):
        await client.put_departure(pair.server_id, replace(arrival, root=""), operation=operation())
    os.truncate(arrival.root, 1 << 20)
    with pytest.raises(Unavailable, match="as large as"):
        await client.put_departure(pair.server_id, arrival, operation=operation())
    portrait = await client.show_portrait(pair.server_id)
    await pair.there.client.put_arrival(pair.server_id, portrait, operation=operation())
    await pair.send()
    assert await pair.states() == ("migrated", "running")
    with pytest.raises(Conflict, match="has a guest"):
        await pair.there.client.put_arrival(pair.server_id, portrait, operation=operation())


async def test_a_guest_is_sent_encrypted_or_not_as_both_hosts_want_it(pair: Pair) -> None:
    client, arrival = pair.here.client, await pair.there.client.show_arrival(pair.server_id)
    assert arrival.tls == ""
    named = replace(arrival, tls="5.host.mooring")
    with pytest.raises(Conflict, match="takes them only over it"):
        await client.put_departure(pair.server_id, named, operation=operation())
    settings = pair.source.agent.settings
    pair.source.agent.settings = replace(settings, move_tls=True)
    with pytest.raises(Conflict, match="takes them without it"):
        await client.put_departure(pair.server_id, arrival, operation=operation())
    assert await pair.states() == ("running", "absent")
    with pytest.raises(Conflict, match="no certificate for moves"):
        await client.put_arrival(new_id(), PORTRAIT, operation=operation())


@pytest.mark.hosts
async def test_a_libvirt_without_a_daemon_expects_no_guest(tmp_path: Path) -> None:
    if reason := why_no_real_guests():
        pytest.skip(reason)
    async with agent_process(tmp_path / "state", "libvirt") as agent:
        portrait = replace(PORTRAIT, hypervisor="libvirt", accelerator="tcg", version=0)
        with pytest.raises(Conflict, match="needs a libvirt daemon"):
            await agent.client.put_arrival(new_id(), portrait, operation=operation())
