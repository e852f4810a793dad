"""Guests that go from one host to another: what every hypervisor promises of that.

What needs a hypervisor that can be held in the middle: tests/agent/test_moves.py. Stories of real
guests that write: tests/hosts.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mooring.agent.qemu_img import GIB
from mooring.agent.settings import HypervisorKind
from mooring.agent_api.servers import PowerRequest
from mooring.errors import Conflict, NotFound
from tests.agent.hosts import IMAGE_ID, new_id, operation
from tests.contract.moving_pairs import Hosts, Moving, boot, open_hosts

pytestmark = pytest.mark.anyio


@pytest.fixture
async def hosts(kind: HypervisorKind, tmp_path: Path) -> AsyncGenerator[Hosts]:
    async with open_hosts(kind, tmp_path) as opened:
        yield opened


@pytest.fixture
async def moving(hosts: Hosts) -> Moving:
    return await boot(hosts)


async def test_a_guest_runs_on_at_the_other_host_and_stays_there(moving: Moving) -> None:
    here, there = moving.hosts.here.client, moving.hosts.there.client
    await moving.expect()
    await moving.connect()
    await moving.send()
    assert await moving.states() == ("migrated", "running")
    guest = await there.show_server(moving.server_id)
    assert guest is not None
    assert [(one.attachment_id, one.live) for one in guest.disks] == [(moving.second, True)]
    # What has moved is sent again in vain, and started nowhere else.
    await moving.send()
    start = PowerRequest(state="on")
    with pytest.raises(Conflict, match="another host"):
        await here.set_power(moving.server_id, start, operation=operation())
    with pytest.raises(Conflict, match="has the guest"):
        await there.delete_arrival(moving.server_id, operation=operation())
    portrait = await there.show_portrait(moving.server_id)
    with pytest.raises(Conflict, match="has a guest"):
        await there.put_arrival(moving.server_id, portrait, operation=operation())
    assert await moving.states() == ("migrated", "running")
    await here.delete_server(moving.server_id, operation=operation())
    await here.disconnect(moving.disk.attachment_id, operation=operation())
    assert await moving.states() == ("absent", "running")


async def test_a_guest_that_stands_still_arrives_so_grows_and_goes_back(moving: Moving) -> None:
    """QEMU does not hold the disks of one that arrived so: each of these ended it."""
    here, there = moving.hosts.here.client, moving.hosts.there.client
    pause = PowerRequest(state="pause")
    await here.set_power(moving.server_id, pause, operation=operation())
    await moving.expect()
    await moving.connect()
    await moving.send()
    assert await moving.states() == ("migrated", "paused")
    await here.delete_server(moving.server_id, operation=operation())
    await here.disconnect(moving.disk.attachment_id, operation=operation())
    names = moving.server_id, moving.disk.volume_id
    size = await there.resize_disk(*names, 2 * GIB, operation=operation())
    assert (size.guest_bytes, size.image_bytes) == (2 * GIB, 2 * GIB)
    assert await moving.states() == ("absent", "paused")
    back = replace(moving, hosts=moving.hosts.swapped(), second=new_id())
    await back.expect()
    await back.connect()
    await back.send()
    assert await moving.states() == ("paused", "migrated")
    await there.delete_server(moving.server_id, operation=operation())
    run = PowerRequest(state="unpause")
    await here.set_power(moving.server_id, run, operation=operation())
    assert await moving.states() == ("running", "absent")


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_guest_that_is_held_still_on_its_way_runs_on_where_it_gets_to(
    moving: Moving, *, arrives: bool
) -> None:
    here, named = moving.hosts.here.client, operation()
    await moving.expect()
    await moving.connect()
    arrival = await moving.hosts.there.client.show_arrival(moving.server_id)
    with moving.hosts.slow(moving.server_id):
        sending = asyncio.create_task(
            here.put_departure(moving.server_id, arrival, operation=named)
        )
        await moving.until("running", "prelaunched")
        for _ in range(2):
            await here.hasten_departure(moving.server_id, operation=operation())
            assert await moving.states() == ("paused", "prelaunched")
        if not arrives:
            await here.cancel_departure(moving.server_id, operation=named)
    if arrives:
        await sending
        assert await moving.states() == ("migrated", "running")
        return
    with pytest.raises(Conflict, match=r"ended|undone"):
        await sending
    await moving.until("running", "absent")
    await moving.turn_away()


async def test_a_guest_is_sent_only_where_its_disks_are(moving: Moving) -> None:
    await moving.hosts.there.client.delete_image(IMAGE_ID, operation=operation())
    with pytest.raises(NotFound, match="push it first"):
        await moving.expect()
    await moving.hosts.there.push_image()
    await moving.expect()
    with pytest.raises(Conflict, match="has not connected volume"):
        await moving.send()
    await moving.connect()
    with pytest.raises(Conflict, match="made no root disk"):
        await moving.send(root="")
    assert await moving.states() == ("running", "absent")
    arrival = await moving.hosts.there.client.show_arrival(moving.server_id)
    assert await asyncio.to_thread(Path(arrival.root).is_file)
    await moving.turn_away()
    assert not await asyncio.to_thread(Path(arrival.root).exists)
    assert await moving.states() == ("running", "absent")


async def test_what_does_not_run_does_not_move(moving: Moving) -> None:
    here, there = moving.hosts.here.client, moving.hosts.there.client
    with pytest.raises(NotFound):
        await there.show_portrait(moving.server_id)
    with pytest.raises(Conflict, match="not on its way"):
        await here.hasten_departure(moving.server_id, operation=operation())
    await moving.expect()
    await moving.connect()
    off = PowerRequest(state="off", mode="hard")
    await here.set_power(moving.server_id, off, operation=operation())
    with pytest.raises(Conflict, match="is stopped"):
        await here.show_portrait(moving.server_id)
    with pytest.raises(Conflict, match="is stopped"):
        await moving.send()
    assert await moving.states() == ("stopped", "absent")
    await moving.turn_away()


@pytest.mark.parametrize(
    ("change", "said"),
    [({"version": 900_000_000}, "older"), ({"accelerator": "other"}, "other")],
    ids=["newer emulator", "other accelerator"],
)
async def test_a_host_that_cannot_run_a_guest_expects_none(
    moving: Moving, change: dict[str, Any], said: str
) -> None:
    portrait = await moving.hosts.here.client.show_portrait(moving.server_id)
    client = moving.hosts.there.client
    with pytest.raises(Conflict, match=said):
        await client.put_arrival(
            moving.server_id, replace(portrait, **change), operation=operation()
        )
    assert await moving.states() == ("running", "absent")
