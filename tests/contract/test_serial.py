"""Serial ports of guests: what every hypervisor and its agent promise to whoever talks to one."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.agent.settings import HypervisorKind
from mooring.agent.waiting import until_told
from mooring.agent_api.serial import SerialInput
from mooring.agent_api.servers import PowerRequest
from mooring.errors import Conflict, NotFound
from tests.agent.hosts import TestHost, new_id, operation
from tests.contract.moving_pairs import Hosts, boot, open_hosts

pytestmark = pytest.mark.anyio
_WORDS = b"mooring was typed here"


class Line:
    """Somebody who has a guest's port open."""

    def __init__(self, host: TestHost, server_id: str) -> None:
        self.client, self.server_id = host.client, server_id
        self.session_id, self.heard, self.typed = "", b"", 0
        self.ended = ""

    async def open(self) -> None:
        self.session_id = await self.client.open_serial(self.server_id)

    async def type(self, data: bytes) -> None:
        """Type all of this."""
        while data:
            typed = SerialInput(after=self.typed, data=data)
            now = await self.client.write_serial(self.server_id, self.session_id, typed)
            data, self.typed = data[now - self.typed :], now

    async def listen(self, wait_s: float = 1.0) -> bytes:
        """Take what has come."""
        came = await self.client.read_serial(
            self.server_id, self.session_id, len(self.heard), wait_s
        )
        self.heard, self.ended = self.heard + came.data, came.ended
        assert came.next == len(self.heard)
        return came.data

    async def hears(self, words: bytes) -> None:
        """Wait until the guest has said so."""

        async def heard() -> bool:
            await self.listen()
            return words in self.heard

        assert await until_told(heard, 60), self.heard

    async def hears_the_end(self) -> str:
        """Wait until there is nothing more to hear, and return why."""

        async def over() -> bool:
            await self.listen()
            return bool(self.ended)

        assert await until_told(over, 60), self.heard
        return self.ended


async def _boot(host: TestHost) -> str:
    """Make a guest that says nothing more by itself, and return its server's id."""
    server_id = new_id()
    await host.boot(server_id)
    await _until_still(host, server_id)
    return server_id


async def _until_still(host: TestHost, server_id: str) -> None:
    if host.real:
        # What it says would stand in the middle of what is typed.
        await host.hears(server_id, "boot marker")


async def _talk(host: TestHost, server_id: str) -> Line:
    line = Line(host, server_id)
    await line.open()
    await line.type(_WORDS + b"\r")
    await line.hears(_WORDS)
    return line


async def test_a_guest_echoes_what_is_typed_and_its_console_has_it(host: TestHost) -> None:
    server_id = await _boot(host)
    await host.client.check_serial(server_id)
    line = await _talk(host, server_id)
    await host.hears(server_id, _WORDS.decode())
    # What the guest says by itself is heard, too, and in its console as well.
    disk = await host.make_disk()
    await host.plug(server_id, disk)
    await line.hears(b"disk vdb")
    await host.hears(server_id, "disk vdb")
    await line.client.close_serial(server_id, line.session_id)
    await line.client.close_serial(server_id, line.session_id)
    with pytest.raises(NotFound, match="Open it again"):
        await line.listen()
    await _talk(host, server_id)


async def test_a_call_that_comes_twice_types_and_tells_once(host: TestHost) -> None:
    server_id = await _boot(host)
    line = Line(host, server_id)
    await line.open()
    names = server_id, line.session_id
    for _ in range(2):
        typed = SerialInput(after=0, data=b"once-only\r")
        assert await host.client.write_serial(*names, typed) == 10
    line.typed = 10
    await line.type(b"then-more\r")
    await line.hears(b"then-more")
    assert line.heard.count(b"once-only") == 1
    again = await host.client.read_serial(*names, len(line.heard), 0.0)
    assert again.next - len(again.data) == len(line.heard)
    with pytest.raises(Conflict, match="no place"):
        await host.client.read_serial(*names, len(line.heard) + 100_000, 0.0)
    with pytest.raises(Conflict, match="has not come"):
        await host.client.write_serial(*names, SerialInput(after=999, data=b"x"))


async def test_who_opens_a_port_has_it_alone(host: TestHost) -> None:
    server_id = await _boot(host)
    first = await _talk(host, server_id)
    second = await _talk(host, server_id)
    assert "Somebody else" in await first.hears_the_end()
    await second.type(b"still there\r")
    await second.hears(b"still there")


async def test_a_guest_that_is_off_or_not_there_cannot_be_talked_to(host: TestHost) -> None:
    absent = new_id()
    for ask in (host.client.check_serial, host.client.open_serial):
        with pytest.raises(NotFound):
            await ask(absent)
    server_id = await _boot(host)
    line = await _talk(host, server_id)
    off = PowerRequest(state="off")
    await host.client.set_power(server_id, off, operation=operation())
    assert "gone" in await line.hears_the_end()
    for ask in (host.client.check_serial, host.client.open_serial):
        with pytest.raises(Conflict, match="only one that runs"):
            await ask(server_id)
    await host.client.set_power(server_id, PowerRequest(state="on"), operation=operation())
    await host.hears(server_id, "mooring-guest: up", 2)
    if host.real:
        await host.hears(server_id, "boot marker", 2)
    await _talk(host, server_id)
    await host.remove(server_id)
    with pytest.raises(NotFound):
        await host.client.check_serial(server_id)


@pytest.fixture
async def hosts(kind: HypervisorKind, tmp_path: Path) -> AsyncGenerator[Hosts]:
    async with open_hosts(kind, tmp_path) as opened:
        yield opened


async def test_a_guest_that_moves_is_talked_to_at_its_new_host(hosts: Hosts) -> None:
    moving = await boot(hosts)
    await _until_still(hosts.here, moving.server_id)
    line = await _talk(hosts.here, moving.server_id)
    await moving.expect()
    await moving.connect()
    await moving.send()
    assert "gone" in await line.hears_the_end()
    with pytest.raises(Conflict, match="only one that runs"):
        await hosts.here.client.open_serial(moving.server_id)
    await _talk(hosts.there, moving.server_id)
    await hosts.there.hears(moving.server_id, _WORDS.decode())


async def test_a_guest_that_has_a_log_alone_gets_a_port_with_a_hard_reboot(hosts: Hosts) -> None:
    moving = await boot(hosts)
    await _until_still(hosts.here, moving.server_id)
    await moving.expect()
    await moving.connect()
    # That is what the agent of the release before says of itself: its guests have a log alone.
    await moving.send(opens_serial=False)
    assert await moving.states() == ("migrated", "running")
    there = hosts.there
    if there.real:
        with pytest.raises(Conflict, match="hard reboot"):
            await there.client.open_serial(moving.server_id)
    disks = [replace(moving.disk, attachment_id=moving.second)]
    reboot = PowerRequest(state="reboot", disks=disks)
    await there.client.set_power(moving.server_id, reboot, operation=operation())
    await there.hears(moving.server_id, "mooring-guest: up")
    await _until_still(there, moving.server_id)
    await _talk(there, moving.server_id)
