"""A host whose agent answers what none should: it is that host's trouble alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.agent_api.transport import Forward, Request, Response
from tests.compute.cloud import ComputeCloud

pytestmark = pytest.mark.anyio


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncGenerator[ComputeCloud]:
    async with ComputeCloud(tmp_path, hosts=("host1", "host2"), database=database) as opened:
        yield opened


def answer_as(cloud: ComputeCloud, change: Callable[[dict[str, Any]], Any], status: int) -> None:
    """Have host2 answer otherwise when it is asked what it is."""
    before = cloud.deliver_to_host

    async def deliver(request: Request, forward: Forward) -> Response:
        answer = await before(request, forward)
        if (request.headers["host"], request.target) != ("host2", "/host"):
            return answer
        body = change(msgspec.json.decode(answer.body))
        return Response(status, msgspec.json.encode(body), answer.headers)

    cloud.deliver_to_host = deliver


async def states(cloud: ComputeCloud) -> dict[str, str]:
    listed = await cloud.ask("GET", "/os-services?binary=nova-compute", user="admin")
    return {one["host"]: one["state"] for one in listed.key("services")}


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, {"kind": ["bug"]}),
        (500, {"kind": "bug", "public": "x", "detail": {"public": "y", "private": "z"}}),
        (500, {"kind": "bug", "public": 1, "private": [], "detail": "none"}),
        (202, ["no ticket"]),
        (202, {"number": "1"}),
        (200, {"vcpus": 2**70}),
        (200, {"memory_mib": -5}),
        (200, {"hypervisor": "a\0b"}),
        (200, {"name": "host1"}),
    ],
)
async def test_nobody_else_suffers(cloud: ComputeCloud, status: int, body: Any) -> None:
    def change(told: dict[str, Any]) -> Any:
        return told | body if status == 200 else body

    answer_as(cloud, change, status)
    for _ in range(20):
        cloud.clock.advance(10)
        # As loops do: what a look raises ends the whole control plane.
        await cloud.look_at_hosts()
    assert await states(cloud) == {"host1": "up", "host2": "down"}


async def test_a_host_that_is_gone_is_kept_alive_by_no_other(cloud: ComputeCloud) -> None:
    answer_as(cloud, lambda told: told | {"name": "host1"}, 200)
    cloud.ended_hosts.add("host1")
    for _ in range(20):
        cloud.clock.advance(10)
        await cloud.look_at_hosts()
    assert (await states(cloud))["host1"] == "down"
