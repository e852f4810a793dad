"""A real guest moves between two real libvirt daemons over TLS, and nobody on the way reads it.

The test stands in for the control plane, which certifies hosts that joined (tests/fleet).
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring import certificates
from mooring.agent.move_identity import LINK
from mooring.agent.waiting import until
from mooring.agent_api.certificates import MoveCertificates
from mooring.agent_api.moves import Portrait
from mooring.certificates import Held
from mooring.errors import Conflict
from mooring.lab.real_hosts import RealHost, RealHosts
from tests.agent.hosts import new_id, operation
from tests.agent.processes import AgentProcess, agent_behind

pytestmark = [pytest.mark.anyio, pytest.mark.hosts]
PORTRAIT = Portrait(hypervisor="libvirt", accelerator="tcg", version=0)
SECRET = b"MOORING-MARKER:"
"""What the guest has in its memory, and on its disk."""
_LISTEN = """
import socket, sys
packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
packets.setsockopt(socket.SOL_SOCKET, 33, 256 << 20)
secret, found, total = sys.argv[1].encode(), 0, 0
packets.settimeout(0.2)
print("listens", flush=True)
import os, select
while not select.select([0], [], [], 0)[0]:
    try:
        data = packets.recv(1 << 20)
    except TimeoutError:
        continue
    total += len(data)
    found += data.count(secret)
print(found, total)
"""
_CONNECT = """
import libvirt, sys
libvirt.registerErrorHandler(lambda *_: None, None)
try:
    libvirt.open(sys.argv[1]).close()
except libvirt.libvirtError:
    sys.exit(3)
"""


@pytest.fixture
async def lab(tmp_path: Path, several_hosts: None) -> AsyncGenerator[RealHosts]:
    del several_hosts
    made = RealHosts(tmp_path, ("moor-e", "moor-f"))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(made.close, guests=True)
        await made.open()
        yield made


@asynccontextmanager
async def agents(lab: RealHosts, *words: str) -> AsyncGenerator[list[AgentProcess]]:
    """Start the agents of a lab, with a daemon each that was there or is made.

    With the word `joined` they are hosts that joined, with `clear` their setting move_tls is false.
    """
    async with AsyncExitStack() as stack:
        found: list[AgentProcess] = []
        for host in lab.hosts:
            more = ("", "", host.name, host.namespace.address, *words)
            agent = agent_behind(host.before(), host.directory, "libvirt", *more)
            found.append(await stack.enter_async_context(agent))
        yield found


async def certify(lab: RealHosts) -> None:
    """Give each host its certificates, as the control plane does, and end its daemon.

    The next one is told of them.
    """
    authority = certificates.make_authority(datetime.now(UTC), certificates.MOVES)
    async with agents(lab, "joined") as found:
        for agent, host in zip(found, lab.hosts, strict=True):
            shown = await agent.client.move_certificates()
            assert (shown.is_wanted, shown.held) == (True, None)
            with pytest.raises(Conflict, match="no certificate for moves"):
                await agent.client.show_arrival(new_id())
            await agent.client.put_move_certificates(sign(authority, host, shown.wish))
            held = (await agent.client.move_certificates()).held
            assert held is not None
            assert held.authority == authority.certificate.decode()
            with pytest.raises(Conflict, match=r"port 16514: .*docs/hosts\.md"):
                await agent.client.put_arrival(new_id(), PORTRAIT, operation=operation())
    for host in lab.hosts:
        daemon = int((host.directory / "libvirtd.pid").read_text())
        os.kill(daemon, signal.SIGTERM)
        assert await until(lambda pid=daemon: not Path(f"/proc/{pid}").exists(), 30.0)


def sign(authority: Held, host: RealHost, wish: str) -> MoveCertificates:
    """Return what the control plane would."""
    asked, address = certificates.read_request(wish.encode()), host.namespace.address
    server, client = (
        certificates.sign_for_moves(
            authority,
            asked,
            host.name,
            address,
            asks=asks,
            now=datetime.now(UTC),
            lifetime_s=3600.0,
        ).decode()
        for asks in (False, True)
    )
    return MoveCertificates(authority.certificate.decode(), server, client)


class Overheard:
    """How often somebody on the way read the secret, and how many bytes they saw."""

    times = 0
    total = 0


@contextmanager
def overhearing(host: RealHost) -> Generator[Overheard]:
    """Listen to all that comes to a host or leaves it."""
    heard = Overheard()
    command = ["ip", "netns", "exec", host.namespace.name, sys.executable, "-c", _LISTEN]
    process = subprocess.Popen(
        [*command, SECRET.decode()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "listens\n"
    yield heard
    said, _ = process.communicate("end\n", timeout=60.0)
    heard.times, heard.total = (int(word) for word in said.split())


def connects(host: RealHost, to: RealHost, scheme: str, files: Path | None = None) -> bool:
    """Whether somebody at one host gets into the daemon of another."""
    uri = f"qemu+{scheme}://{to.namespace.address}/system"
    if files is not None:
        uri += f"?pkipath={files}"
    command = ["ip", "netns", "exec", host.namespace.name, sys.executable, "-c", _CONNECT, uri]
    code = subprocess.run(command, timeout=60, check=False).returncode
    assert code in {0, 3}
    return code == 0


async def move(pair: list[AgentProcess], server_id: str) -> None:
    """Move a guest with the disk on its host."""
    here, there = (agent.client for agent in pair)
    portrait = await here.show_portrait(server_id)
    await pair[1].host.push_image()
    await there.put_arrival(server_id, portrait, operation=operation())
    arrival = await there.show_arrival(server_id)
    other = replace(arrival, tls="" if arrival.tls else "somebody")
    with pytest.raises(Conflict, match="move_tls"):
        await here.put_departure(server_id, other, operation=operation())
    await here.put_departure(server_id, arrival, operation=operation())
    guests = [await client.show_server(server_id) for client in (here, there)]
    assert [guest and guest.state for guest in guests] == ["migrated", "running"]


@pytest.mark.parametrize("words", [(), ("joined",), ("joined", "clear")], ids="-".join)
async def test_what_a_guest_has_is_read_on_the_way_only_where_it_is_not_encrypted(
    lab: RealHosts, words: tuple[str, ...]
) -> None:
    encrypts = words == ("joined",)
    if encrypts:
        await certify(lab)
    async with agents(lab, *words) as pair:
        server_id = new_id()
        await pair[0].host.boot(server_id)
        await pair[0].host.hears(server_id, f"boot marker written {server_id}")
        with overhearing(lab.hosts[0]) as heard:
            await move(pair, server_id)
        # Memory and disk have passed.
        assert heard.total > 16 * 1024**2
        assert (heard.times > 0) == (not encrypts)
        for agent in pair:
            await agent.client.delete_server(server_id, operation=operation())


async def test_a_daemon_lets_nobody_in_whom_the_cloud_has_not_certified(
    lab: RealHosts, tmp_path: Path
) -> None:
    here, there = lab.hosts
    await certify(lab)
    stranger = tmp_path / "stranger"
    async with agents(lab, "joined"):
        assert connects(here, there, "tls", here.directory / LINK)
        assert not connects(here, there, "tcp")
        stranger.mkdir()
        for file in (here.directory / LINK).iterdir():
            (stranger / file.name).write_bytes(file.read_bytes())
        other = certificates.make_authority(datetime.now(UTC), certificates.MOVES)
        key = certificates.new_key()
        wish = certificates.make_request(key, here.name).decode()
        (stranger / "clientcert.pem").write_text(sign(other, here, wish).client)
        (stranger / "clientkey.pem").write_bytes(key)
        assert not await asyncio.to_thread(connects, here, there, "tls", stranger)
