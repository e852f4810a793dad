"""Who is let in between control plane and hosts: only the right certificate, on both sides."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncGenerator
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from mooring import certificates
from mooring.agent.waiting import until
from mooring.agent_api.client import Agents
from mooring.agent_api.remote import Place
from mooring.certificates import Held
from mooring.errors import Unavailable
from tests.cloud import SimulatedCloud
from tests.fleet.members import DAY_S, certify, lay_member, now, start_agent
from tests.kill.processes import ForkedProcess

pytestmark = pytest.mark.anyio
AUTHORITY = certificates.make_authority(now())
STRANGERS = certificates.make_authority(now())


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncGenerator[ForkedProcess]:
    """A host of AUTHORITY, in a process of its own."""
    lay_member(tmp_path / "host", AUTHORITY)
    process = await asyncio.to_thread(start_agent, tmp_path / "host")
    yield process
    process.kill()


async def ask(address: str, held: Held, enrolment: str = "e1", authority: Held = AUTHORITY) -> str:
    """Ask an agent who it is, with what `held` shows."""
    context = certificates.client_context(authority.authority, held)
    client = Agents().remote("host-1", Place(address, enrolment), context)
    try:
        return (await client.host()).name
    finally:
        await client.close()


async def test_an_agent_answers_its_control_plane_alone(agent: ForkedProcess) -> None:
    ours = certificates.hold_control_plane(AUTHORITY, now(), DAY_S)
    assert await ask(agent.ready, ours) == "host-1"
    certificate, key = certify(AUTHORITY, "host-2", "e2")
    another_host = Held(certificate, key, AUTHORITY.authority)
    foreign = certificates.hold_control_plane(STRANGERS, now(), DAY_S)
    long_ago = now() - timedelta(days=30)
    expired = certificates.hold_control_plane(AUTHORITY, long_ago, DAY_S)
    for held in (another_host, foreign, expired):
        with pytest.raises(Unavailable, match="no answer"):
            await ask(agent.ready, Held(held.certificate, held.key, AUTHORITY.authority))
    assert await ask(agent.ready, ours) == "host-1"


async def test_who_shows_no_certificate_gets_no_answer(agent: ForkedProcess) -> None:
    context = certificates.client_context(AUTHORITY.authority)
    client = Agents().remote("host-1", Place(agent.ready, "e1"), context)
    with pytest.raises(Unavailable, match="no answer"):
        await client.host()
    await client.close()


@pytest.mark.parametrize(
    ("stranger", "reason", "shown"),
    [
        ("foreign", "unable to get local issuer certificate", "a certificate of another authority"),
        ("another host", "unsuitable certificate purpose", "every host of this cloud has"),
        ("bare", "PEER_DID_NOT_RETURN_A_CERTIFICATE", "no certificate"),
        ("plain", "HTTP_REQUEST", ""),
        ("other bytes", "WRONG_VERSION_NUMBER", ""),
    ],
)
async def test_a_stranger_is_told_of_in_the_log(
    stranger: str, reason: str, shown: str, agent: ForkedProcess, tmp_path: Path
) -> None:
    host, _, port = agent.ready.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60.0) as line:
        caller = f"127.0.0.1:{line.getsockname()[1]}"
        await asyncio.to_thread(knock, line, stranger)
    log = tmp_path / "host.log"
    assert await until(lambda: caller in log.read_text("utf-8"), 60.0)
    [told] = [one for one in log.read_text("utf-8").splitlines() if caller in one]
    assert "a stranger was turned away" in told
    assert reason in told
    assert shown in told
    assert "warning" in told


def knock(line: socket.socket, stranger: str) -> None:
    """Call as a stranger, until one is hung up on."""
    with enter(line, stranger) as talk, suppress(OSError):
        while talk.recv(4096):
            pass


def enter(line: socket.socket, stranger: str) -> socket.socket:
    """Say first what a stranger does."""
    if stranger in {"plain", "other bytes"}:
        line.sendall(b"GET / HTTP/1.1\r\n\r\n" if stranger == "plain" else b"let me in")
        return line
    held: Held | None = None
    if stranger == "foreign":
        held = certificates.hold_control_plane(STRANGERS, now(), DAY_S)
    elif stranger == "another host":
        held = Held(*certify(AUTHORITY, "host-2", "e2"), AUTHORITY.authority)
    context = certificates.client_context(AUTHORITY.authority, held)
    return context.wrap_socket(line, server_hostname="e1.host.mooring")


async def test_the_control_plane_asks_only_the_joining_that_it_knows(agent: ForkedProcess) -> None:
    """A certificate of another host, of a host that was removed, and of another cloud."""
    ours = certificates.hold_control_plane(AUTHORITY, now(), DAY_S)
    with pytest.raises(Unavailable, match="has not the certificate of host host-1") as refused:
        await ask(agent.ready, ours, enrolment="e2")
    assert "let it join again" in refused.value.public
    with pytest.raises(Unavailable, match="has not the certificate of host host-1"):
        await ask(agent.ready, ours, authority=STRANGERS)


@pytest.mark.parametrize(
    ("name", "enrolment", "authority"),
    [
        pytest.param("host-2", "e2", AUTHORITY, id="of another host"),
        pytest.param("host-1", "e0", AUTHORITY, id="of a host that was removed"),
        pytest.param("host-1", "e1", STRANGERS, id="of another authority"),
    ],
)
async def test_the_control_plane_s_log_names_the_host_that_shows_a_wrong_certificate(
    name: str, enrolment: str, authority: Held, agent: ForkedProcess, tmp_path: Path
) -> None:
    """What answers where host-2 was, or where host-1 was before it joined again, is host-1."""
    ours = certificates.hold_control_plane(AUTHORITY, now(), DAY_S)
    context = certificates.client_context(authority.authority, ours)
    async with SimulatedCloud(tmp_path / "state", hosts=()) as cloud:
        cloud.known_agents.remote(name, Place(agent.ready, enrolment), context)
        with capture_logs() as logged:
            await cloud.look_at_hosts()
    unseen = [line for line in logged if line["event"] == "a host could not be looked at"]
    [told] = [line for line in unseen if line["host"] == name]
    assert told["log_level"] == "warning"
    reason = f"{agent.ready} has not the certificate of host {name}; nothing was asked of it"
    assert reason in told["error"]
    assert "certificate verify failed" in told["error"]


async def test_an_expired_certificate_of_a_host_is_refused(tmp_path: Path) -> None:
    lay_member(tmp_path / "host", AUTHORITY, at=now() - timedelta(days=30))
    process = await asyncio.to_thread(start_agent, tmp_path / "host")
    ours = certificates.hold_control_plane(AUTHORITY, now(), DAY_S)
    try:
        with capture_logs(), pytest.raises(Unavailable, match="has not the certificate"):
            await ask(process.ready, ours)
    finally:
        process.kill()


async def test_more_silent_connections_than_files_keep_nobody_from_an_agent(
    agent: ForkedProcess, tmp_path: Path
) -> None:
    ours = certificates.hold_control_plane(AUTHORITY, now(), DAY_S)
    resource.prlimit(agent.pid, resource.RLIMIT_NOFILE, (500, 500))
    host, _, port = agent.ready.rpartition(":")
    with ExitStack() as stack:
        for _ in range(1000):
            stack.enter_context(socket.create_connection((host, int(port))))
        assert await ask(agent.ready, ours) == "host-1"
    assert "Too many open files" not in (tmp_path / "host.log").read_text("utf-8")
