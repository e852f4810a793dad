"""What hosts have mounted for no server is swept, whatever the others do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent_api.transport import Forward as HostForward
from mooring.agent_api.transport import Request as HostRequest
from mooring.agent_api.transport import Response as HostResponse
from mooring.compute.shares.loops import sweep_shares
from mooring.limits import COMPUTE_SHARE_SWEEP_S
from tests.compute.shared_moves import leak, sharing_cloud
from tests.compute.sharing import SharingCloud

pytestmark = pytest.mark.anyio
LOOKS = 20
"""Two are enough where a host is asked and answers before the clock turns again."""


@pytest.fixture
async def cloud(tmp_path: Path) -> AsyncGenerator[SharingCloud]:
    async with sharing_cloud(tmp_path, ("host1", "host2")) as opened:
        yield opened


async def is_swept(cloud: SharingCloud, host: str, share: str) -> bool:
    """Run the loop for some looks; whether what `leak` left is gone then."""
    running = asyncio.create_task(sweep_shares.run(cloud.compute))
    try:
        for _ in range(LOOKS):
            await cloud.pass_time(COMPUTE_SHARE_SWEEP_S)
            # The clock has turned, and nobody has said that hosts answered meanwhile.
            await cloud.look_at_hosts()
            await cloud.settle()
            if (await cloud.mounts(host), await cloud.rules(share)) == ([], {}):
                break
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    return (await cloud.mounts(host), await cloud.rules(share)) == ([], {})


async def test_a_host_that_does_not_say_what_it_has_mounted_keeps_no_other_from_being_swept(
    cloud: SharingCloud,
) -> None:
    share, well = await cloud.make_share(), cloud.deliver_to_host
    await leak(cloud, share, "host2")

    async def hang(request: HostRequest, forward: HostForward) -> HostResponse:
        asks = request.target in {"/share-mounts", "/inventory"}
        if request.headers["host"] == "host1" and asks:
            await asyncio.Event().wait()
        return await well(request, forward)

    cloud.deliver_to_host = hang
    assert await is_swept(cloud, "host2", share)


async def test_what_an_agent_of_the_release_before_has_mounted_is_swept_too(
    cloud: SharingCloud,
) -> None:
    share, well = await cloud.make_share(), cloud.deliver_to_host
    await leak(cloud, share, "host2")

    async def know_less(request: HostRequest, forward: HostForward) -> HostResponse:
        target = request.target.replace("/share-mounts", "/unknown")
        return await well(replace(request, target=target), forward)

    cloud.deliver_to_host = know_less
    assert await is_swept(cloud, "host2", share)
