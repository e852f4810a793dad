"""What whoever comes by websocket can make the server hold is bounded: beginnings, pings, ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from websockets.asyncio.client import connect

from mooring import http_limits
from mooring.agent.waiting import until_told
from tests.web.quay import HEAD, REQUEST, Berth, Caller, berthed

pytestmark = pytest.mark.anyio
_UPGRADE = b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
_KEY = b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
_OPENING = HEAD + _UPGRADE + _KEY
_PINGS = (b"\x89\xfd\0\0\0\0" + b"p" * 125) * 1000


class _Wharf:
    """Lets everybody in, and says a lot, if it is to say something; counts who has left."""

    def __init__(self) -> None:
        self.says_much = self.refuses = self.is_busy = False
        self.is_left, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 200, "headers": _EMPTY})
            await send({"type": "http.response.body", "body": b""})
            return
        await receive()
        if self.refuses:
            kind = "websocket.http.response"
            await send({"type": f"{kind}.start", "status": 403, "headers": []})
            await send({"type": f"{kind}.body", "body": b"no"})
            return
        await send({"type": "websocket.accept"})
        if self.is_busy:
            await self.may_go_on.wait()
            await receive()
            await send({"type": "websocket.send", "bytes": b"taken"})
        try:
            while self.says_much:
                await send({"type": "websocket.send", "bytes": bytes(65536)})
            while (await receive())["type"] != "websocket.disconnect":
                pass
        finally:
            self.is_left.set()


_EMPTY = [(b"content-length", b"0")]


@pytest.fixture
async def wharf() -> _Wharf:
    return _Wharf()


@pytest.fixture(params=["clear", "tls"])
async def berth(wharf: _Wharf, request: pytest.FixtureRequest) -> AsyncGenerator[Berth]:
    async with berthed(wharf, is_tls=request.param == "tls", has_sockets=True) as made:
        yield made


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(b"A: " + b"a" * 9000 + b"\r\n", id="long line"),
        pytest.param(b"Content-Length: 5\r\n", id="body"),
        pytest.param(b"Transfer-Encoding: chunked\r\n", id="pieces"),
    ],
)
async def test_what_opens_no_websocket_keeps_no_place(
    berth: Berth, more: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "HTTP_CONNECTIONS", 2)
    async with AsyncExitStack() as held:
        for _ in range(2):
            caller = await held.enter_async_context(Caller(berth))
            caller.send(HEAD + more + _UPGRADE + b"\r\n")
            assert b" 4" in await caller.hear_head()
        # Over TLS they still say goodbye.
        assert await until_told(lambda: _is_served(berth), 5.0)


async def _is_served(berth: Berth) -> bool:
    async with Caller(berth) as caller:
        caller.send(REQUEST)
        return await caller.hear() == b"HTTP/1.1 200 OK | "


async def test_who_reads_no_answers_to_pings_makes_none_wait(
    wharf: _Wharf, berth: Berth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "HTTP_READ_WAIT_S", 0.5)
    async with Caller(berth) as caller:
        caller.send(_OPENING + b"\r\n")
        assert b" 101 " in await caller.hear_head()
        caller.pause()
        await caller.until_gone(_PINGS)
        async with asyncio.timeout(5.0):
            await wharf.is_left.wait()


async def test_who_reads_nothing_is_cut_off(
    wharf: _Wharf, berth: Berth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "HTTP_READ_WAIT_S", 0.5)
    wharf.says_much = True
    async with Caller(berth) as caller:
        caller.send(_OPENING + b"\r\n")
        caller.pause()
        async with asyncio.timeout(5.0):
            await wharf.is_left.wait()


async def test_strangers_who_are_refused_fill_no_log(
    wharf: _Wharf, berth: Berth, caplog: pytest.LogCaptureFixture
) -> None:
    wharf.refuses = True
    async with Caller(berth) as caller:
        caller.send(_OPENING + b"\r\n")
        assert b" 403 " in await caller.hear_head()
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_text_that_is_none_ends_a_websocket_and_fills_no_log(
    wharf: _Wharf, berth: Berth, caplog: pytest.LogCaptureFixture
) -> None:
    async with Caller(berth) as caller:
        caller.send(_OPENING + b"\r\n")
        assert b" 101 " in await caller.hear_head()
        # The two halves of a letter, then one that never has another half.
        caller.send(b"\x01\x81\0\0\0\0\xc3" + b"\x80\x81\0\0\0\0\xa9")
        caller.send(b"\x81\x81\0\0\0\0\xc3")
        assert await caller.hear_end() == b"\x88\x02" + (1007).to_bytes(2)
        async with asyncio.timeout(5.0):
            await wharf.is_left.wait()
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]


async def test_who_is_kept_waiting_is_not_taken_for_gone(
    wharf: _Wharf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "SOCKET_PING_S", 0.2)
    wharf.is_busy = True
    async with berthed(wharf, is_tls=False, has_sockets=True) as berth:
        host, port = berth.address
        async with connect(f"ws://{host}:{port}", proxy=None, ping_interval=None) as socket:
            for _ in range(2):
                await socket.send(b"taken later")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.0):
                    await socket.recv()
            wharf.may_go_on.set()
            assert await socket.recv() == b"taken"
