"""Volumes that an administrator calls detached while their server lets go of them.

Their host has not disconnected them, and refuses that first: it is to do so with the server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mooring.agent_api.transport import Forward, Request, Response
from mooring.errors import Conflict
from tests.compute.cloud import ComputeCloud
from tests.compute.moving import server_that_moves
from tests.compute.rebuilding import make_booted, rebuild_well, state

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("refusals", [1, 2, 4])]


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncIterator[ComputeCloud]:
    async with ComputeCloud(tmp_path, hosts=("host1", "host2"), database=database) as opened:
        yield opened


@contextmanager
def keeping(cloud: ComputeCloud, refusals: int) -> Generator[None]:
    """Let the host refuse to disconnect volumes; an administrator calls the first one detached."""
    refused: list[str] = []
    deliver = cloud.deliver_to_host
    reset = {"os-reset_status": {"status": "available", "attach_status": "detached"}}

    async def keep(request: Request, forward: Forward) -> Response:
        is_kept = request.method == "DELETE" and request.target.startswith("/connections/")
        if not is_kept or len(refused) == refusals:
            return await deliver(request, forward)
        if not refused:
            path = f"/attachments/{request.target.rpartition('/')[2]}"
            taken = (await cloud.volume_api("GET", path, user="admin"))["attachment"]["volume_id"]
            await cloud.volume_api("POST", f"/volumes/{taken}/action", reset, user="admin")
        refused.append(request.target)
        raise Conflict("It is in use.")

    cloud.deliver_to_host = keep
    yield
    cloud.deliver_to_host = deliver
    assert refused


async def leaves_with_its_server(cloud: ComputeCloud, server_id: str) -> None:
    """See that the server has failed, and that nothing is left once it is deleted."""
    assert await state(cloud, server_id) == ("ERROR", None)
    assert (await cloud.ask("DELETE", f"/servers/{server_id}")).status == 204
    await cloud.settle()
    assert [*await cloud.connections(), *await cloud.connections("host2")] == []
    assert await cloud.complaints() == []


async def test_it_leaves_with_a_server_whose_rebuild_it_ended(
    cloud: ComputeCloud, refusals: int
) -> None:
    server_id, _ = await make_booted(cloud)
    with keeping(cloud, refusals):
        await rebuild_well(cloud, server_id)
    await leaves_with_its_server(cloud, server_id)


async def test_it_leaves_with_a_server_that_was_not_shelved_for_it(
    cloud: ComputeCloud, refusals: int
) -> None:
    server_id = (await server_that_moves(cloud)).server_id
    with keeping(cloud, refusals):
        assert await cloud.act(server_id, "shelve", version="2.100") == 202
        await cloud.settle()
    await leaves_with_its_server(cloud, server_id)
