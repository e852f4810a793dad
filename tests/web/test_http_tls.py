"""Who connects over TLS and sends nothing holds little, and stops nobody."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import tracemalloc
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager

import pytest

from mooring import certificates, http_limits, limits
from tests.web.quay import PATIENCE_S, REQUEST, Berth, Caller, Quay, berthed

pytestmark = pytest.mark.anyio
FILES, SILENT = 500, 1000
HELD_BYTES = 64 << 10
"""What Python may hold for a connection that shakes hands; OpenSSL has some more."""
ANSWER = b"HTTP/1.1 200 OK | moored"


@pytest.fixture
async def berth() -> AsyncGenerator[Berth]:
    async with berthed(Quay(), is_tls=True) as made:
        yield made


def connect(berth: Berth, stack: ExitStack) -> socket.socket:
    """Connect, and send nothing."""
    silent = stack.enter_context(socket.create_connection(berth.address))
    silent.setblocking(False)
    return silent


async def is_ended(silent: socket.socket) -> bool:
    """Wait for the end of a connection; whether nothing came before it."""
    async with asyncio.timeout(PATIENCE_S):
        try:
            return await asyncio.get_running_loop().sock_recv(silent, 1) == b""
        except ConnectionResetError:
            return True


async def ask(berth: Berth) -> bytes:
    async with Caller(berth) as caller:
        caller.send(REQUEST)
        return await caller.hear()


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01\x01"])
async def test_who_does_not_finish_a_handshake_is_cut_off(
    berth: Berth, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "HTTP_HEAD_WAIT_S", 0.2)
    with ExitStack() as stack:
        silent = connect(berth, stack)
        silent.sendall(sent)
        assert await is_ended(silent)


async def test_who_speaks_no_tls_is_cut_off(berth: Berth) -> None:
    with ExitStack() as stack:
        silent = connect(berth, stack)
        silent.sendall(REQUEST)
        async with asyncio.timeout(PATIENCE_S):
            while await asyncio.get_running_loop().sock_recv(silent, 4096):
                pass
    assert await ask(berth) == ANSWER + b" /"


async def test_the_silent_take_no_more_places_than_there_are(
    berth: Berth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "HTTP_CONNECTIONS", 5)
    with ExitStack() as stack:
        silent = [connect(berth, stack) for _ in range(5 + http_limits.HTTP_ACCEPTED + 20)]
        for one in silent[:20]:
            assert await is_ended(one), "the ones that were there longest make room"
        assert await ask(berth) == ANSWER + b" /"


async def test_a_connection_that_shakes_hands_holds_little(berth: Berth) -> None:
    await ask(berth)
    with ExitStack() as stack:
        tracemalloc.start()
        stack.callback(tracemalloc.stop)
        for _ in range(50):
            connect(berth, stack)
        assert await ask(berth) == ANSWER + b" /", "who came before this one is known by now"
        held, _ = tracemalloc.get_traced_memory()
    assert held < 50 * HELD_BYTES


async def test_a_server_that_ends_does_not_wait_for_handshakes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "SHUTDOWN_S", 60)
    with ExitStack() as stack:
        async with asyncio.timeout(PATIENCE_S), berthed(Quay(), is_tls=True) as berth:
            silent = connect(berth, stack)
            await ask(berth)
        assert await is_ended(silent)


@asynccontextmanager
async def process(files: int) -> AsyncGenerator[tuple[Process, Berth]]:
    """Serve in a process that may have so many files open."""
    command = (sys.executable, "-m", "tests.web.run_quay", str(files))
    started = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    try:
        assert started.stdout is not None
        told = json.loads(await started.stdout.readline())
        trusted = certificates.client_context(told["authority"].encode("ascii"))
        yield started, Berth(("127.0.0.1", told["port"]), trusted)
    finally:
        if started.returncode is None:
            started.kill()
        await started.communicate()


async def said(started: Process) -> bytes:
    """End a process, and return what it has logged."""
    started.terminate()
    out, err = await started.communicate()
    return out + err


async def test_more_silent_connections_than_files_stop_nobody() -> None:
    async with process(FILES) as (started, berth):
        with ExitStack() as stack:
            for _ in range(SILENT):
                connect(berth, stack)
            for _ in range(3):
                assert await ask(berth) == ANSWER
        assert b"Too many open files" not in await said(started)


async def test_who_comes_while_there_are_no_files_waits_and_is_told_of_once() -> None:
    async with process(FILES) as (started, berth):
        assert started.stdin is not None
        assert started.stdout is not None
        started.stdin.write(b"take\n")
        assert await started.stdout.readline() == b"taken\n"
        with ExitStack() as stack:
            for _ in range(3):
                connect(berth, stack)
            assert b"Too many open files" in await started.stdout.readline()
            asking = asyncio.create_task(ask(berth))
            started.stdin.write(b"give\n")
            assert await asking == ANSWER
        assert b"Too many open files" not in await said(started)
