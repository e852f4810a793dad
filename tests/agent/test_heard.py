"""Services that look at all hosts share what a host says: it is not asked by each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec import Struct

from mooring.agent_api import client
from mooring.agent_api.client import AgentClient, Agents
from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Unavailable
from tests.agent.hosts import open_host

pytestmark = pytest.mark.anyio


class Asked(Struct):
    """A host, and how often it was asked."""

    client: AgentClient
    times: int = 0
    is_silent: bool = False

    async def deliver(self, request: Request, forward: Forward) -> Response:
        self.times += 1
        if self.is_silent:
            raise Unavailable("It does not answer.")
        return await forward(request)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncGenerator[Asked]:
    async with open_host(tmp_path) as (_, running):
        agents = Agents()
        found = Asked(agents.in_process("host-1", running.app))
        agents.deliver = found.deliver
        yield found


async def test_what_a_host_has_just_said_is_not_asked_again(host: Asked) -> None:
    said = await host.client.host()
    assert await host.client.last_heard() == said
    assert host.times == 1


async def test_many_who_ask_at_once_ask_once(host: Asked) -> None:
    said = await asyncio.gather(*(host.client.last_heard() for _ in range(3)))
    assert {each.name for each in said} == {"host-1"}
    assert host.times == 1


async def test_what_was_said_long_ago_is_asked_anew(
    host: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    await host.client.host()
    monkeypatch.setattr(client, "HOST_HEARD_S", 0.0)
    await host.client.last_heard()
    assert host.times == 2


async def test_a_host_that_gave_no_answer_is_asked_by_the_next_one(host: Asked) -> None:
    host.is_silent = True
    with pytest.raises(Unavailable):
        await host.client.last_heard()
    host.is_silent = False
    assert (await host.client.last_heard()).name == "host-1"
