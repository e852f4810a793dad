"""Two servers with a volume in common leave a host at once, and one is told two things at once.

Source: specs 001, concurrent moves of servers that share a volume; live migration is in
test_live_migration.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from mooring.compute.hosts.loops import watch_hosts
from tests.compute.cloud import ComputeCloud
from tests.compute.moving import LIVE, Moving, server_that_moves, writers
from tests.compute.verifying import ask, force_down, migrate, show

pytestmark = pytest.mark.anyio
HOSTS = ("host1", "host2", "host3")


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncIterator[ComputeCloud]:
    async with ComputeCloud(tmp_path, hosts=HOSTS, database=database) as opened:
        yield opened


async def sharers(cloud: ComputeCloud) -> tuple[str, list[Moving]]:
    """Return a volume, and two servers at the first host that have it and go to the second."""
    shared = await cloud.make_shared_volume()
    both = [await server_that_moves(cloud, volumes=1) for _ in range(2)]
    for one in both:
        if one.source != "host1":
            await one.move(host="host1")
        one.source, one.destination = "host1", "host2"
        assert (await cloud.attach(one.server_id, shared, version="2.60")).status == 200
        await cloud.settle()
    return shared, both


async def act(one: Moving, action: str, value: Any, *, version: str = "2.94") -> None:
    """Ask for something without waiting for what comes of it."""
    status = await one.cloud.act(one.server_id, action, value, user="admin", version=version)
    assert status in {200, 202}


async def cold(both: list[Moving]) -> None:
    for one in both:
        await act(one, "migrate", {"host": "host2"})


async def cold_and_live(both: list[Moving]) -> None:
    await act(both[0], "migrate", {"host": "host2"})
    await act(both[1], LIVE, {"host": "host2", "block_migration": "auto"})


async def evacuated(both: list[Moving]) -> None:
    for one in both:
        one.cloud.hypervisor("host1").crash(one.server_id)
    await force_down(both[0].cloud, "host1", down=True)
    for one in both:
        await act(one, "evacuate", {"host": "host2"})


async def unshelved(both: list[Moving]) -> None:
    for one in both:
        assert await ask(one, "shelve") == 202
    for one in both:
        await act(one, "unshelve", {"host": "host2"}, version="2.91")


@pytest.mark.parametrize("move", [cold, cold_and_live, evacuated, unshelved])
async def test_both_come_with_the_volume_that_they_share(
    cloud: ComputeCloud, move: Callable[[list[Moving]], Awaitable[None]]
) -> None:
    shared, both = await sharers(cloud)
    await cloud.look_at_hosts()
    await move(both)
    await cloud.settle()
    for one in both:
        shown = await show(one)
        assert shown["OS-EXT-SRV-ATTR:host"] == "host2"
        assert shown["status"] in {"ACTIVE", "VERIFY_RESIZE"}
        assert set(await cloud.disks(one.server_id, "host2")) == {one.volumes[0], shared}
    assert await writers(cloud, shared) == ["host2", "host2"]
    if move is evacuated:
        for _ in range(2):
            await watch_hosts.look_once(cloud.compute)
            await cloud.settle()
        await force_down(cloud, "host1", down=False)
        assert await cloud.connections("host1") == []
    assert await cloud.complaints() == []


async def test_one_is_confirmed_while_the_other_goes_back(cloud: ComputeCloud) -> None:
    shared, (first, second) = await sharers(cloud)
    await cloud.look_at_hosts()
    await cold([first, second])
    await cloud.settle()
    answers = await asyncio.gather(
        cloud.act(first.server_id, "confirmResize", None),
        cloud.act(second.server_id, "revertResize", None),
    )
    assert answers == [204, 202]
    await cloud.settle()
    assert [(await show(one))["status"] for one in (first, second)] == ["ACTIVE", "ACTIVE"]
    assert [await first.host(), await second.host()] == ["host2", "host1"]
    assert await writers(cloud, shared) == ["host1", "host2"]
    assert await cloud.complaints() == []


async def test_of_six_words_about_one_server_at_once_one_is_taken(cloud: ComputeCloud) -> None:
    one = await server_that_moves(cloud)
    await migrate(one)
    words = ("confirmResize", "revertResize") * 3
    answers = await asyncio.gather(*(cloud.act(one.server_id, word, None) for word in words))
    assert sorted(answers)[1:] == [400] * 5 or sorted(answers)[1:] == [409] * 5, answers
    (taken,) = [word for word, answer in zip(words, answers, strict=True) if answer < 300]
    await cloud.settle()
    assert (await show(one))["status"] == "ACTIVE"
    assert await one.host() == (one.destination if taken == "confirmResize" else one.source)
    assert await cloud.complaints() == []
