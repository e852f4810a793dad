"""Shares that a server gets again at a host that still lets go of them for an earlier operation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent_api.transport import Forward as HostForward
from mooring.agent_api.transport import Request as HostRequest
from mooring.agent_api.transport import Response as HostResponse
from mooring.clients.transport import Forward, Request, Response, deliver_once
from mooring.compute.shares.loops import sweep_shares
from mooring.errors import Unavailable
from mooring.neighbour import NoAnswer
from tests.compute.sharing import SharingCloud, at

pytestmark = pytest.mark.anyio
HANGS = 6


@pytest.fixture
async def cloud(tmp_path: Path, database: str) -> AsyncIterator[SharingCloud]:
    """Compute with the share service, which the doctor finds well in the end."""
    async with SharingCloud(tmp_path, database=database) as opened:
        yield opened
        assert await opened.complaints() == []


async def reset(cloud: SharingCloud, server_id: str) -> None:
    path, body = f"/servers/{server_id}/action", {"os-resetState": {"state": "error"}}
    answer = await cloud.do("POST", path, body, user="admin")
    assert answer is not None
    assert answer.status == 202, answer.text


async def break_off_start(cloud: SharingCloud, server_id: str) -> None:
    """Reset a server that is being started while its host, of another address now, is kept out.

    From then on the host is to let go of the share, by itself.
    """
    await cloud.change_host("host1", mounts=at("192.0.2.77"))
    await cloud.look_at_hosts()
    storage = cloud.storage()
    storage.knobs.fail("revoke", Unavailable("The storage is slow."), times=HANGS)
    assert await cloud.act(server_id, "os-start") == 202
    while storage.knobs.passed.get("revoke", 0) < 2:
        await cloud.pass_time(1.0)
    await reset(cloud, server_id)


@pytest.mark.parametrize("rests", [True, False])
async def test_a_share_is_mounted_again_where_it_was_still_to_be_unmounted(
    cloud: SharingCloud, *, rests: bool
) -> None:
    """Whether the clean-up rests when the server is started again, or has just been asked for."""
    server_id, share_id = await cloud.make_shared()
    cloud.silent = ("DELETE", f"/servers/{server_id}/shares/")
    await break_off_start(cloud, server_id)
    for _ in range(90 if rests else 1):
        await cloud.pass_time(1.0 if rests else 90.0)
    cloud.silent = None
    await cloud.look_at_hosts()
    assert await cloud.act(server_id, "reboot", {"type": "HARD"}) == 202
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await cloud.unfinished() == []
    assert await cloud.mounts() == [(server_id, share_id)]
    assert await cloud.rules(share_id) == {"192.0.2.77": "active"}
    assert await cloud.shares(server_id) == {share_id: "active"}


class LateUnmount:
    """Keeps it back that a host has unmounted a share, until that has mounted it again.

    Or until it may be told.
    """

    def __init__(self, cloud: SharingCloud) -> None:
        self.done, self.may_be_told = asyncio.Event(), asyncio.Event()
        cloud.deliver_to_host = self._deliver

    async def _deliver(self, request: HostRequest, forward: HostForward) -> HostResponse:
        answer, path = await forward(request), request.target
        if path.startswith("/servers/") and "/shares/" in path and request.method == "DELETE":
            self.done.set()
            await self.may_be_told.wait()
        elif self.done.is_set() and request.method == "PUT" and path.endswith("/power"):
            self.may_be_told.set()
        return answer


async def test_a_server_that_is_started_while_its_host_unmounts_a_share_has_it_afterwards(
    cloud: SharingCloud,
) -> None:
    server_id, share_id = await cloud.make_shared()
    late = LateUnmount(cloud)
    await break_off_start(cloud, server_id)
    while not late.done.is_set():
        await cloud.pass_time(1.0)
    assert await cloud.act(server_id, "reboot", {"type": "HARD"}) == 202
    for _ in range(100):
        # The storage gets quick again.
        await cloud.pass_time(2.0)
    late.may_be_told.set()
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await cloud.unfinished() == []
    assert await cloud.mounts() == [(server_id, share_id)]
    assert await cloud.places() == [(server_id, "host1", "mounted")]
    assert await cloud.rules(share_id) == {"192.0.2.77": "active"}
    assert await cloud.shares(server_id) == {share_id: "active"}


class LateDenial:
    """Loses what the share service is to hear of denying rules; later keeps it until it may go."""

    def __init__(self, cloud: SharingCloud) -> None:
        self.is_lost, self.asked, self.may_be_heard = True, asyncio.Event(), asyncio.Event()
        cloud.deliver, cloud.deliver_to_host = self._deliver, self._deliver_to_host

    async def _deliver_to_host(self, request: HostRequest, forward: HostForward) -> HostResponse:
        """As long as the share service hears nothing, the host has another address."""
        answer = await forward(request)
        if self.is_lost and (request.method, request.target) == ("GET", "/host"):
            return replace(answer, body=answer.body.replace(b"192.0.2.1", b"192.0.2.77"))
        return answer

    async def _deliver(self, request: Request, forward: Forward) -> Response:
        if request.method == "POST" and b"deny_access" in (request.content or b""):
            self.asked.set()
            if self.is_lost:
                raise NoAnswer("The share service is not there.")
            await self.may_be_heard.wait()
        return await deliver_once(request, forward)


async def test_a_server_that_is_started_while_its_host_is_to_be_kept_out_gets_another_rule(
    cloud: SharingCloud,
) -> None:
    """The host has got another address, and has the former one again."""
    server_id, share_id = await cloud.make_shared()
    late = LateDenial(cloud)
    assert await cloud.act(server_id, "os-start") == 202
    while not late.asked.is_set():
        await cloud.pass_time(1.0)
    await reset(cloud, server_id)
    late.is_lost = False
    late.asked.clear()
    while not late.asked.is_set():
        await cloud.pass_time(1.0)
    assert await cloud.act(server_id, "reboot", {"type": "HARD"}) == 202
    for _ in range(20):
        await cloud.pass_time(1.0)
    late.may_be_heard.set()
    await cloud.settle()
    assert (await cloud.server(server_id))["status"] == "ACTIVE"
    assert await cloud.unfinished() == []
    assert await cloud.places() == [(server_id, "host1", "mounted")]
    assert await cloud.rules(share_id) == {"192.0.2.1": "active"}


class LateLook:
    """Keeps the next look at an access rule waiting, until it may go on."""

    def __init__(self, cloud: SharingCloud) -> None:
        self.asked, self.may_go_on = asyncio.Event(), asyncio.Event()
        cloud.deliver = self._deliver

    async def _deliver(self, request: Request, forward: Forward) -> Response:
        is_look = request.method == "GET" and "/share-access-rules/" in request.target
        if is_look and not self.asked.is_set():
            self.asked.set()
            await self.may_go_on.wait()
        return await deliver_once(request, forward)


async def test_a_late_answer_about_a_rule_of_before_forgets_nobody_who_was_let_in_since(
    cloud: SharingCloud,
) -> None:
    server_id, share_id = await cloud.make_shared()
    await break_off_start(cloud, server_id)
    look = LateLook(cloud)
    while not look.asked.is_set():
        await cloud.pass_time(1.0)
    assert await cloud.act(server_id, "reboot", {"type": "HARD"}) == 202
    while (await cloud.server(server_id))["status"] != "ACTIVE":
        await cloud.pass_time(1.0)
    assert await cloud.rules(share_id) == {"192.0.2.77": "active"}
    look.may_go_on.set()
    await cloud.settle()
    assert await cloud.unfinished() == []
    assert await cloud.places() == [(server_id, "host1", "mounted")]
    assert await cloud.mounts() == [(server_id, share_id)]
    # Nobody takes the rule for one that leaked, either.
    await sweep_shares.sweep_once(cloud.compute)
    await cloud.settle()
    assert await cloud.rules(share_id) == {"192.0.2.77": "active"}
    assert await cloud.shares(server_id) == {share_id: "active"}
