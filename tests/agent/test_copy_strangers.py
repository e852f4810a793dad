"""Who asks a host for its disks without having been given them: what strangers get is nothing."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring import certificates
from mooring.agent_api.client import AgentClient, Agents
from mooring.agent_api.copies import Offer
from mooring.agent_api.remote import Place
from mooring.errors import Conflict, Invalid, Unavailable
from tests.agent.copying import MIB, Pair, open_pair, root, stop_a_guest
from tests.agent.hosts import operation
from tests.fleet.members import DAY_S, lay_member, now, start_agent

pytestmark = pytest.mark.anyio
LESS_THAN_A_CALLER_HAS_S = 8.0


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncGenerator[Pair]:
    async with open_pair(tmp_path) as made:
        yield made


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


async def test_who_says_nothing_keeps_nobody_out(pair: Pair) -> None:
    offer = await pair.offer()
    host, _, port = offer.address.rpartition(":")
    with ExitStack() as stack:
        for _ in range(80):
            stack.enter_context(socket.create_connection((host, int(port))))
        async with asyncio.timeout(LESS_THAN_A_CALLER_HAS_S):
            assert (await say(offer, offer.key.encode() + b" 0 0\n")).startswith(b"yes\n")


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
