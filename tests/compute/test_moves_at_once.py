"""Moves of several servers at once, between the same hosts: each is taken, on both databases."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.compute.cloud import ComputeCloud
from tests.compute.moving import Moving, server_that_moves

pytestmark = pytest.mark.anyio
HOSTS: tuple[str, ...] = ("host1", "host2", "host3")
COUNT = 6


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncIterator[ComputeCloud]:
    async with ComputeCloud(tmp_path, hosts=HOSTS, database=database) as opened:
        yield opened


@pytest.fixture
async def servers(cloud: ComputeCloud) -> list[Moving]:
    made = [await server_that_moves(cloud, volumes=1) for _ in range(COUNT)]
    await cloud.look_at_hosts()
    return made


async def ask_all(servers: list[Moving], *actions: dict[str, object]) -> None:
    """Ask for an action of each server at once."""
    asked = [
        each.cloud.ask("POST", f"/servers/{each.server_id}/action", action, user="admin")
        for each, action in zip(servers, actions * len(servers), strict=False)
    ]
    answers = await asyncio.gather(*asked)
    assert {answer.status for answer in answers} <= {202, 204}, [one.text for one in answers]
    await servers[0].cloud.settle()


async def test_cold_moves_and_the_users_words(cloud: ComputeCloud, servers: list[Moving]) -> None:
    for word in ("confirmResize", "revertResize"):
        await ask_all(servers, {"migrate": None})
        await cloud.look_at_hosts()
        await ask_all(servers, {word: None})
        await cloud.look_at_hosts()
    assert await cloud.complaints() == []


async def test_live_moves_to_hosts_that_are_named_in_a_ring(
    cloud: ComputeCloud, servers: list[Moving]
) -> None:
    following = dict(zip(HOSTS, HOSTS[1:] + HOSTS[:1], strict=True))
    asked: list[dict[str, object]] = [
        {"os-migrateLive": {"host": following[each.source], "block_migration": "auto"}}
        for each in servers
    ]
    await ask_all(servers, *asked)
    assert await cloud.complaints() == []
