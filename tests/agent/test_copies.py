"""Disks on their way between two hosts: killed agents, strangers, damage, full disks, late calls.

What every hypervisor promises of copies: tests/contract/test_copies.py.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
from msgspec import Struct
from msgspec.structs import replace

from mooring import certificates
from mooring.agent.app import open_agent
from mooring.agent.pace import Pace
from mooring.agent.settings import AgentSettings
from mooring.agent.waiting import until_told
from mooring.agent_api.client import AgentClient, Agents
from mooring.agent_api.copies import Offer
from mooring.agent_api.remote import Place
from mooring.agent_api.servers import PowerRequest
from mooring.errors import Conflict, Invalid, MooringError, NoCapacity, Unavailable
from mooring.fence.operation import Operation
from tests.agent.hosts import BOOT_S, TestHost, new_id, open_host, operation
from tests.agent.processes import agent_process
from tests.fleet.members import DAY_S, lay_member, now, start_agent

pytestmark = pytest.mark.anyio
MIB = 1024**2
PIECES = 40
OFF = PowerRequest(state="off")


class Pair(Struct):
    """Two hosts of this process, and a guest of the first one, which is off."""

    here: AgentClient
    there: AgentClient
    directory: Path
    server_id: str

    async def offer(self) -> Offer:
        """Have the guest's disk offered."""
        return await self.here.put_offer(self.server_id, operation=operation())

    async def copy(self, offer: Offer, named: Operation | None = None) -> None:
        """Have it copied."""
        await self.there.put_copy(self.server_id, offer, operation=named or operation())

    async def is_coming(self) -> bool:
        """Whether some of it has come."""
        try:
            return (await self.there.show_copy(self.server_id)).copied_bytes > 0
        except MooringError:
            return False

    @property
    def source(self) -> Path:
        """The disk that is offered."""
        return root(self.directory / "a", self.server_id)

    @property
    def copied(self) -> Path:
        """The disk that is made of it."""
        return root(self.directory / "b", self.server_id)


async def never(seconds: float) -> None:
    """Rest for ever."""
    del seconds
    await asyncio.Event().wait()


def root(state_dir: Path, server_id: str) -> Path:
    """Where a simulated host keeps the disk of a guest."""
    return state_dir / "guests" / server_id / "root"


async def stop_a_guest(client: AgentClient, state_dir: Path, pieces: int = 0) -> str:
    """Have a host make a guest that is off, whose disk has so many MiB; return its id."""
    host, server_id = TestHost(client, real=False), new_id()
    await host.boot(server_id)
    await client.set_power(server_id, OFF, operation=operation())
    named = operation()
    await client.put_offer(server_id, operation=named)
    await client.withdraw_offer(server_id, operation=named)
    with root(state_dir, server_id).open("r+b") as disk:
        # As a flavor with a disk of this size would have it.
        os.truncate(disk.fileno(), 2 * (pieces + 1) * MIB)
        for number in range(pieces):
            # Every second MiB of the disk is a hole.
            os.pwrite(disk.fileno(), os.urandom(MIB), 2 * number * MIB)
    return server_id


@pytest.fixture
def stalls() -> bool:
    """Whether the first host gives one MiB, and no more."""
    return False


@pytest.fixture
async def pair(tmp_path: Path, stalls: bool) -> AsyncGenerator[Pair]:
    async with AsyncExitStack() as stack:
        clients: list[AgentClient] = []
        for name in ("a", "b"):
            directory = tmp_path / name
            settings = AgentSettings(name=name, state_dir=directory, hypervisor="simulated")
            running = await stack.enter_async_context(open_agent(settings))
            if stalls:
                running.agent.copying.door.pace = Pace(1, rest=never)
            clients.append(Agents().in_process(name, running.app))
        here, there = clients
        server_id = await stop_a_guest(here, tmp_path / "a", 2 if stalls else 1)
        yield Pair(here, there, tmp_path, server_id)


async def test_what_is_empty_is_neither_sent_nor_stored(pair: Pair) -> None:
    os.truncate(pair.source, 1024 * MIB)
    offer = await pair.offer()
    (disk,) = offer.disks
    assert (disk.size_bytes, disk.data_bytes) == (1024 * MIB, MIB)
    await pair.copy(offer)
    assert pair.copied.stat().st_size == 1024 * MIB
    assert pair.copied.stat().st_blocks * 512 < 2 * MIB
    with pair.copied.open("rb") as copied, pair.source.open("rb") as source:
        assert copied.read(4 * MIB) == source.read(4 * MIB)


@pytest.mark.kill
async def test_a_copy_goes_on_wherever_its_destination_is_killed(tmp_path: Path) -> None:
    named, there = operation(), tmp_path / "b"
    async with open_host(tmp_path / "a") as (source, _):
        server_id = await stop_a_guest(source.client, tmp_path / "a", PIECES)
        offer = await source.client.put_offer(server_id, operation=operation())
        for point in ("begin", "forced", "forced", "brought", "taken", "acted"):
            async with agent_process(there, "simulated", f"agent/put_copy/{point}") as agent:
                with pytest.raises(Unavailable):
                    await agent.client.put_copy(server_id, offer, operation=named)
                await agent.died()
        async with agent_process(there, "simulated") as agent:
            done = await agent.client.put_copy(server_id, offer, operation=named)
            assert done.is_whole
            whole = root(tmp_path / "a", server_id).read_bytes()
            assert root(there, server_id).read_bytes() == whole
            await agent.client.discard_copy(server_id, operation=operation())
            assert (await agent.client.inventory()).leftovers == []


@pytest.mark.kill
async def test_what_was_on_disk_is_not_fetched_again_and_found_when_it_is_damaged(
    tmp_path: Path,
) -> None:
    named, there = operation(), tmp_path / "b"
    async with open_host(tmp_path / "a") as (source, _):
        server_id = await stop_a_guest(source.client, tmp_path / "a", PIECES)
        offer = await source.client.put_offer(server_id, operation=operation())
        async with agent_process(there, "simulated", "agent/put_copy/forced@2") as agent:
            with pytest.raises(Unavailable):
                await agent.client.put_copy(server_id, offer, operation=named)
            await agent.died()
        with root(there, server_id).with_name("root.coming").open("r+b") as disk:
            (byte,) = os.pread(disk.fileno(), 1, 100)
            os.pwrite(disk.fileno(), bytes([byte ^ 1]), 100)
        async with open_host(there) as (host, _):
            assert (await host.client.show_copy(server_id)).copied_bytes == 32 * MIB
            with pytest.raises(Unavailable, match="came damaged"):
                await host.client.put_copy(server_id, offer, operation=named)
            assert (await host.client.put_copy(server_id, offer, operation=named)).is_whole
        whole = root(tmp_path / "a", server_id).read_bytes()
    assert root(there, server_id).read_bytes() == whole


@pytest.mark.kill
async def test_a_copy_goes_on_when_its_source_was_killed(tmp_path: Path) -> None:
    """Nothing is sent twice: the second source would be killed as the first was."""
    here, dies = tmp_path / "a", "agent/put_offer/sent@25"
    async with open_host(tmp_path / "b") as (host, _):
        async with agent_process(here, "simulated", dies) as source:
            server_id = await stop_a_guest(source.client, here, PIECES)
            giving, copying = operation(), operation()
            offer = await source.client.put_offer(server_id, operation=giving)
            with pytest.raises(Unavailable, match="did not send"):
                await host.client.put_copy(server_id, offer, operation=copying)
            await source.died()
        with pytest.raises(Unavailable, match="did not send"):
            await host.client.put_copy(server_id, offer, operation=copying)
        async with agent_process(here, "simulated", dies) as source:
            again = await source.client.put_offer(server_id, operation=giving)
            assert again.disks == offer.disks
            stale = replace(again, key=offer.key)
            with pytest.raises(Unavailable, match="offered again"):
                await host.client.put_copy(server_id, stale, operation=copying)
            done = await host.client.put_copy(server_id, again, operation=copying)
            assert done.is_whole
    assert root(tmp_path / "b", server_id).read_bytes() == root(here, server_id).read_bytes()


async def test_what_comes_is_thrown_away_unless_it_is_what_was_offered(pair: Pair) -> None:
    offer = await pair.offer()
    wrong = replace(offer, disks=[replace(offer.disks[0], digest="0" * 64)])
    with pytest.raises(Unavailable, match="came damaged"):
        await pair.copy(wrong)
    assert not await pair.is_coming()
    assert list(pair.copied.parent.iterdir()) == []
    more = replace(offer, disks=[replace(offer.disks[0], data_bytes=65536)])
    with pytest.raises(Unavailable, match="More came"):
        await pair.copy(more)
    shorter = replace(offer, disks=[replace(offer.disks[0], size_bytes=2 * MIB)])
    with pytest.raises(Unavailable, match="no sense"):
        await pair.copy(shorter)
    await pair.copy(offer)
    assert pair.copied.read_bytes() == pair.source.read_bytes()


async def test_a_disk_that_was_written_to_is_given_to_nobody(pair: Pair) -> None:
    offer = await pair.offer()
    with pair.source.open("r+b") as disk:
        disk.write(b"other")
    with pytest.raises(Unavailable, match="does not give"):
        await pair.copy(offer)
    await pair.copy(await pair.offer())
    assert pair.copied.read_bytes() == pair.source.read_bytes()


async def test_a_copy_that_would_fill_the_host_is_not_begun(pair: Pair) -> None:
    offer = await pair.offer()
    huge = replace(offer.disks[0], size_bytes=1 << 42, data_bytes=1 << 42)
    with pytest.raises(NoCapacity, match="Make room"):
        await pair.copy(replace(offer, disks=[huge]))
    assert not pair.copied.with_name("root.coming").exists()


@pytest.mark.parametrize("stalls", [True])
async def test_a_copy_that_is_discarded_ends_and_leaves_nothing(pair: Pair) -> None:
    offer, named = await pair.offer(), operation()
    copying = asyncio.create_task(pair.copy(offer, named))
    assert await until_told(pair.is_coming, BOOT_S)
    await pair.there.discard_copy(pair.server_id, operation=named)
    with pytest.raises(Conflict, match=r"ended|undone"):
        await copying
    with pytest.raises(Conflict, match="undone"):
        await pair.copy(offer, named)
    assert (await pair.there.inventory()).leftovers == []


@pytest.mark.parametrize("stalls", [True])
async def test_nothing_is_sent_any_more_once_the_offer_is_withdrawn(pair: Pair) -> None:
    offer = await pair.offer()
    copying = asyncio.create_task(pair.copy(offer))
    assert await until_told(pair.is_coming, BOOT_S)
    await pair.here.withdraw_offer(pair.server_id, operation=operation())
    with pytest.raises(Unavailable, match="did not send"):
        await copying
    with pytest.raises(Unavailable, match="did not send"):
        await pair.copy(offer)


async def test_an_image_of_the_cache_is_taken_instead_and_never_written_to(pair: Pair) -> None:
    image = await TestHost(pair.there, real=False).push_image()
    cached = pair.directory / "b" / "images" / image.image_id
    content = cached.read_bytes()
    pair.source.write_bytes(content)
    offer = named_after_image(await pair.offer(), image.image_id)
    await pair.here.withdraw_offer(pair.server_id, operation=operation())
    await pair.copy(offer)
    assert pair.copied.samefile(cached)
    await pair.there.discard_copy(pair.server_id, operation=operation())
    pair.source.write_bytes(content[::-1])
    offer = named_after_image(await pair.offer(), image.image_id)
    with pytest.raises(Unavailable):
        await pair.copy(replace(offer, key=offer.key[::-1]))
    coming = pair.copied.with_name("root.coming")
    coming.unlink(missing_ok=True)
    # As a crash leaves it, after which the image was pushed anew.
    coming.hardlink_to(cached)
    await pair.copy(offer)
    assert pair.copied.read_bytes() == content[::-1]
    assert cached.read_bytes() == content


def named_after_image(offer: Offer, image_id: str) -> Offer:
    """Return an offer of a disk as a layer's image is offered."""
    return replace(offer, disks=[replace(offer.disks[0], image_id=image_id)])


# -- strangers ---------------------------------------------------------------------------------


async def say(offer: Offer, line: bytes) -> bytes:
    """Return all that a host's door answers."""
    host, _, port = offer.address.rpartition(":")
    context = certificates.client_context(offer.authority.encode())
    reader, writer = await asyncio.open_connection(
        host, int(port), ssl=context, server_hostname=offer.identity
    )
    try:
        writer.write(line)
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize(
    "line",
    [
        b"0 0\n",
        b"../../../etc/passwd 0 0\n",
        b"%(key)s ../root 0\n",
        b"%(key)s /etc/passwd 0\n",
        b"%(key)s 1 0\n",
        b"%(key)s 99 0\n",
        b"%(key)s 0 -1\n",
        b"%(key)s 0 0 \n",
        b" %(key)s 0 0\n",
        b"%(wrong)s 0 0\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xfe\n",
    ],
)
async def test_who_asks_for_anything_but_the_offered_disk_gets_nothing(
    pair: Pair, line: bytes
) -> None:
    offer = await pair.offer()
    key = offer.key.encode()
    wrong = key[:-1] + (b"A" if key[-1:] != b"A" else b"B")
    assert await say(offer, line % {b"key": key, b"wrong": wrong}) == b"no\n"
    assert (await say(offer, key + b" 0 0\n")).startswith(b"yes\n")


async def test_who_says_too_much_gets_nothing(pair: Pair) -> None:
    assert await say(await pair.offer(), b"x" * 10_000) == b""


async def test_a_key_opens_one_guest_s_disks_until_the_next_operation(
    pair: Pair, tmp_path: Path
) -> None:
    other_id = await stop_a_guest(pair.here, tmp_path / "a", 2)
    first = await pair.offer()
    other = await pair.here.put_offer(other_id, operation=operation())
    assert first.address == other.address
    said = await say(first, first.key.encode() + b" 0 0\n")
    assert pair.source.read_bytes()[:MIB] in said
    assert root(tmp_path / "a", other_id).read_bytes()[:MIB] not in said
    second = await pair.offer()
    assert await say(second, first.key.encode() + b" 0 0\n") == b"no\n"
    assert (await say(second, second.key.encode() + b" 0 0\n")).startswith(b"yes\n")
    assert (await say(second, other.key.encode() + b" 0 0\n")).startswith(b"yes\n")
    await pair.here.withdraw_offer(pair.server_id, operation=operation())
    assert await say(other, second.key.encode() + b" 0 0\n") == b"no\n"
    await pair.here.withdraw_offer(other_id, operation=operation())
    with pytest.raises(ConnectionRefusedError):
        await say(other, other.key.encode() + b" 0 0\n")


async def test_keys_are_written_nowhere(pair: Pair) -> None:
    offer = await pair.offer()
    await pair.copy(offer)
    files = [path for path in pair.directory.rglob("*") if path.is_file()]
    assert [path for path in files if offer.key.encode() in path.read_bytes()] == []


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../root"},
        {"name": ".."},
        {"name": "/etc/passwd"},
        {"digest": "x"},
        {"size_bytes": -1, "data_bytes": -1},
        {"data_bytes": 1 << 60, "size_bytes": 1 << 60},
        {"image_id": "../../../etc/passwd"},
    ],
    ids=str,
)
async def test_an_offer_that_no_host_makes_is_refused(
    pair: Pair, change: dict[str, str | int]
) -> None:
    offer = await pair.offer()
    disk = replace(offer.disks[0], **change)
    with pytest.raises((Invalid, Conflict)):
        await pair.copy(replace(offer, disks=[disk]))
    with pytest.raises(Invalid):
        await pair.copy(replace(offer, key="x 0 0\n"))
    with pytest.raises(Invalid):
        await pair.copy(replace(offer, authority="none"))


# -- hosts that joined -------------------------------------------------------------------------


@pytest.fixture
async def members(tmp_path: Path) -> AsyncGenerator[list[AgentClient]]:
    """Two hosts of one cloud, in processes of their own, as its control plane sees them."""
    authority = certificates.make_authority(now())
    ours = certificates.hold_control_plane(authority, now(), DAY_S)
    context = certificates.client_context(authority.authority, ours)
    async with AsyncExitStack() as stack:
        found: list[AgentClient] = []
        for number, name in enumerate(("a", "b"), 1):
            lay_member(tmp_path / name, authority, f"host-{number}", f"e{number}")
            process = await asyncio.to_thread(start_agent, tmp_path / name)
            stack.callback(process.kill)
            client = Agents().remote(name, Place(process.ready, f"e{number}"), context)
            stack.push_async_callback(client.close)
            found.append(client)
        yield found


async def test_a_host_that_joined_is_known_by_its_certificate(
    members: list[AgentClient], tmp_path: Path
) -> None:
    here, there = members
    server_id = await stop_a_guest(here, tmp_path / "a", 2)
    offer = await here.put_offer(server_id, operation=operation())
    assert offer.identity == "e1.host.mooring"
    strangers = certificates.make_authority(now()).authority.decode()
    wrong: list[Callable[[], Offer]] = [
        partial(replace, offer, identity="e2.host.mooring"),
        partial(replace, offer, authority=strangers),
    ]
    for change in wrong:
        with pytest.raises(Unavailable, match="did not send"):
            await there.put_copy(server_id, change(), operation=operation())
    done = await there.put_copy(server_id, offer, operation=operation())
    assert done.is_whole
    whole = root(tmp_path / "a", server_id).read_bytes()
    assert root(tmp_path / "b", server_id).read_bytes() == whole


async def test_the_door_for_disks_speaks_nothing_but_tls(pair: Pair) -> None:
    offer = await pair.offer()
    host, _, port = offer.address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(offer.key.encode() + b" 0 0\n")
    assert b"yes" not in await reader.read()
    writer.close()
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await asyncio.open_connection(host, int(port), ssl=old)
