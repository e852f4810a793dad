"""The same law on every way to an agent: inside this process, by its socket, by the network."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring import certificates, http_server
from mooring.agent_api.remote import Place, RemoteSocket
from mooring.agent_api.transport import InProcess, Request, UnixSocket, Wire
from mooring.certificates import Held
from mooring.errors import Unavailable
from mooring.limits import CLIENT_IDLE_S
from tests.clients.test_transport import LATE_S, MIB, Kitchen, listening
from tests.fleet.members import DAY_S, certify, now

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["near", "socket", "network"])
async def wire(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Wire]:
    kitchen, path = Kitchen(), tmp_path / "agent.sock"
    if request.param == "near":
        yield InProcess(kitchen)
        return
    if request.param == "network":
        async with serving(kitchen) as remote:
            yield remote
        return
    async with listening(kitchen, path):
        local = UnixSocket(str(path))
        yield local
        await local.close()


@asynccontextmanager
async def serving(kitchen: Kitchen) -> AsyncGenerator[RemoteSocket]:
    """Serve as an agent on another machine, and give the way there."""
    authority = certificates.make_authority(now())
    host = Held(*certify(authority, "host-1", "e1"), authority.authority)
    ours = certificates.hold_control_plane(authority, now(), DAY_S)
    context = certificates.server_context(host, asks_callers=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        where = Place("{}:{}".format(*listener.getsockname()), "e1")
        asking = certificates.client_context(authority.authority, ours)
        async with http_server.listening(kitchen, listener, context=context, hears_signals=False):
            remote = RemoteSocket("host-1", where, asking)
            yield remote
            await remote.close()


async def test_an_answer_as_long_as_the_bound_is_read(wire: Wire) -> None:
    answer = await wire.send(Request("GET", "/feast", {}), LATE_S)
    assert (answer.status, len(answer.body)) == (200, 64 * MIB)


async def test_a_longer_answer_is_none(wire: Wire) -> None:
    with pytest.raises(Unavailable) as refusal:
        await wire.send(Request("GET", "/banquet", {}), LATE_S)
    assert f"longer than {64 * MIB} bytes" in refusal.value.private


async def test_an_answer_that_breaks_off_is_none(wire: Wire) -> None:
    with pytest.raises(Unavailable):
        await wire.send(Request("GET", "/torn", {}), LATE_S)


async def test_a_body_may_take_longer_than_any_wait_for_it(wire: Wire) -> None:
    async def slowly() -> AsyncIterator[bytes]:
        for _ in range(8):
            made = asyncio.Event()
            asyncio.get_running_loop().call_later(0.2, made.set)
            await made.wait()
            yield b"y"

    answer = await wire.send(Request("PUT", "/count", {}, slowly()), 1.0)
    assert (answer.status, answer.body) == (200, b"8")


async def test_a_connection_that_agents_are_about_to_close_is_not_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[asyncio.StreamWriter] = []

    async def answer(asked: asyncio.StreamReader, told: asyncio.StreamWriter) -> None:
        connections.append(told)
        while await asked.readline():
            if not (await asked.readuntil(b"\r\n\r\n")).strip():
                break
            told.write(b"HTTP/1.1 204 No Content\r\n\r\n")

    path, clock = str(tmp_path / "agent.sock"), time.monotonic
    server = await asyncio.start_unix_server(answer, path)
    wire = UnixSocket(path)
    try:
        for passed_s, seen in ((0.0, 1), (CLIENT_IDLE_S * 0.5, 1), (CLIENT_IDLE_S * 1.6, 2)):
            monkeypatch.setattr(time, "monotonic", lambda late=passed_s: clock() + late)
            assert (await wire.send(Request("GET", "/", {}), LATE_S)).status == 204
            assert len(connections) == seen
    finally:
        monkeypatch.undo()
        await wire.close()
        server.close()
        for each in connections:
            each.close()
            await each.wait_closed()
