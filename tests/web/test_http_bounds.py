"""What whoever has no token can make the server hold is bounded: heads, haste, patience, number."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from typing import Any, Self

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from mooring import limits
from mooring.http_server import listening

pytestmark = pytest.mark.anyio
HEAD = b"GET / HTTP/1.1\r\nHost: quay\r\n"
REQUEST = HEAD + b"\r\n"
PATIENCE_S = 10.0
_MORE_THAN_SOCKETS_HOLD = 32 << 20


class Quay:
    """An application that answers when it may, and counts what it was asked."""

    def __init__(self) -> None:
        self.asked, self.more = 0, 0
        """How often it was asked, and how many bytes more its answers have."""
        self.waits_for_bodies = False
        self._was_asked = asyncio.Condition()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async with self._was_asked:
            self.asked += 1
            self._was_asked.notify_all()
        path = Request(scope).url.path
        if self.waits_for_bodies:
            await Request(scope, receive).body()
        await self.may_answer.wait()
        await PlainTextResponse(f"moored {path}" + "." * self.more)(scope, receive, send)

    async def until_asked(self, times: int) -> None:
        async with asyncio.timeout(PATIENCE_S), self._was_asked:
            await self._was_asked.wait_for(lambda: self.asked >= times)


class Caller:
    """A connection without manners."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(*self._address)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._writer.transport.abort()

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def pause(self) -> None:
        """Read nothing from now on."""
        transport: Any = self._writer.transport
        transport.pause_reading()

    async def until_gone(self) -> None:
        """Wait until what is sent is refused: nothing else tells whoever does not read."""
        self.send(bytes(_MORE_THAN_SOCKETS_HOLD))
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(ConnectionError):
                await self._writer.drain()

    async def hear(self) -> bytes:
        """Return the status line and body of the next answer."""
        async with asyncio.timeout(PATIENCE_S):
            head = await self._reader.readuntil(b"\r\n\r\n")
            lengths = [
                int(line.split(b":")[1]) for line in head.splitlines() if b"content-length" in line
            ]
            return head.split(b"\r\n")[0] + b" | " + await self._reader.readexactly(lengths[0])

    async def is_closed(self) -> bool:
        """Wait for the end of the connection; whether nothing came before it."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self._reader.read() == b""
            except ConnectionResetError:
                return True


@pytest.fixture
async def quay() -> Quay:
    return Quay()


@pytest.fixture
async def address(quay: Quay) -> AsyncGenerator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with listening(quay, listener, hears_signals=False):
            yield listener.getsockname()
        quay.may_answer.set()


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(
            b"GET /" + b"a" * limits.HTTP_HEAD_BYTES + b" HTTP/1.1\r\nHost: quay\r\n\r\n", id="url"
        ),
        pytest.param(HEAD + b"A: " + b"a" * limits.HTTP_HEAD_BYTES + b"\r\n\r\n", id="header"),
        pytest.param(HEAD + b"A: b\r\n" * limits.HTTP_HEADERS + b"\r\n", id="headers"),
        pytest.param(HEAD + b"A: " + b"a" * limits.HTTP_HEAD_BYTES * 2, id="without end"),
    ],
)
async def test_a_head_that_is_too_long_is_refused(
    quay: Quay, address: tuple[str, int], head: bytes
) -> None:
    async with Caller(address) as caller:
        caller.send(head)
        assert (await caller.hear()).startswith(b"HTTP/1.1 431 Request Header Fields Too Large | ")
        assert await caller.is_closed()
    assert quay.asked == 0


async def test_a_long_head_and_a_long_body_are_taken(quay: Quay, address: tuple[str, int]) -> None:
    size = 4 * limits.HTTP_HEAD_BYTES
    more = b"A: " + b"a" * 32768 + b"\r\nContent-Length: %d\r\n\r\n" % size
    async with Caller(address) as caller:
        for _ in range(2):
            caller.send(b"PUT / HTTP/1.1\r\nHost: quay\r\n" + more + b"b" * size)
            assert await caller.hear() == b"HTTP/1.1 200 OK | moored /"


async def test_what_stands_behind_a_body_without_end_is_cut_off(
    quay: Quay, address: tuple[str, int]
) -> None:
    trailer = b"X: " + b"a" * limits.HTTP_HEAD_BYTES * 4
    async with Caller(address) as caller:
        caller.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n")
        assert await caller.hear() == b"HTTP/1.1 200 OK | moored /"
        caller.send(trailer)
        assert await caller.is_closed()
    assert quay.asked == 1


async def test_who_does_not_finish_a_body_that_was_answered_is_cut_off(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HTTP_HEAD_WAIT_S", 0.2)
    async with Caller(address) as caller:
        caller.send(b"PUT / HTTP/1.1\r\nHost: quay\r\nContent-Length: 9\r\n\r\n")
        assert await caller.hear() == b"HTTP/1.1 200 OK | moored /"
        caller.send(b"1")
        assert await caller.is_closed()


async def test_who_reads_nothing_of_his_answers_is_cut_off(
    quay: Quay, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HTTP_READ_WAIT_S", 0.2)
    quay.more = 64 << 20
    async with Caller(address) as caller:
        caller.pause()
        caller.send(REQUEST)
        await quay.until_asked(1)
        await caller.until_gone()


async def test_what_is_no_request_is_answered_400(address: tuple[str, int]) -> None:
    async with Caller(address) as caller:
        caller.send(b"nonsense\r\n\r\n")
        assert (await caller.hear()).startswith(b"HTTP/1.1 400 Bad Request | ")
        assert await caller.is_closed()


async def test_a_few_requests_may_be_sent_ahead_and_are_answered_in_their_order(
    quay: Quay, address: tuple[str, int]
) -> None:
    async with Caller(address) as caller:
        quay.may_answer.clear()
        for number in range(limits.HTTP_PIPELINED):
            caller.send(b"GET /%d HTTP/1.1\r\nHost: quay\r\n\r\n" % number)
        await quay.until_asked(1)
        quay.may_answer.set()
        for number in range(limits.HTTP_PIPELINED):
            assert await caller.hear() == b"HTTP/1.1 200 OK | moored /%d" % number


async def test_who_sends_a_thousand_ahead_is_cut_off(quay: Quay, address: tuple[str, int]) -> None:
    quay.may_answer.clear()
    async with Caller(address) as caller:
        caller.send(REQUEST * 1000)
        assert await caller.is_closed()
    assert quay.asked <= 1


@pytest.mark.parametrize("sent", [b"", b"GET / HT", HEAD])
async def test_who_does_not_finish_a_head_is_cut_off(
    address: tuple[str, int], sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HTTP_HEAD_WAIT_S", 0.2)
    async with Caller(address) as caller:
        caller.send(sent)
        assert await caller.is_closed()


async def test_who_waits_for_an_answer_is_not_cut_off(
    quay: Quay, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HTTP_HEAD_WAIT_S", 0.1)
    quay.may_answer.clear()
    async with Caller(address) as caller, Caller(address) as witness:
        caller.send(REQUEST + b"GET /next HT")
        await quay.until_asked(1)
        assert await witness.is_closed(), "the patience of both has run out"
        quay.may_answer.set()
        assert await caller.hear() == b"HTTP/1.1 200 OK | moored /"
        caller.send(b"TP/1.1\r\nHost: quay\r\n\r\n")
        assert await caller.hear() == b"HTTP/1.1 200 OK | moored /next"


async def test_a_new_connection_takes_the_place_of_the_one_that_was_silent_longest(
    address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HTTP_CONNECTIONS", 3)
    async with AsyncExitStack() as stack:
        first, second, third = [await stack.enter_async_context(Caller(address)) for _ in "123"]
        for caller in (second, third, first):
            caller.send(REQUEST)
            await caller.hear()
        fourth = await stack.enter_async_context(Caller(address))
        fourth.send(REQUEST)
        assert await fourth.hear() == b"HTTP/1.1 200 OK | moored /"
        assert await second.is_closed()
        for caller in (first, third, fourth):
            caller.send(REQUEST)
            assert await caller.hear() == b"HTTP/1.1 200 OK | moored /"


@pytest.mark.parametrize(
    "half",
    [
        pytest.param(HEAD, id="heads"),
        pytest.param(b"PUT / HTTP/1.1\r\nHost: quay\r\nContent-Length: 9\r\n\r\n1", id="bodies"),
    ],
)
async def test_half_requests_stop_nobody(
    quay: Quay, address: tuple[str, int], half: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    quay.waits_for_bodies = True
    monkeypatch.setattr(limits, "HTTP_CONNECTIONS", 20)
    async with AsyncExitStack() as stack:
        for _ in range(100):
            caller = await stack.enter_async_context(Caller(address))
            caller.send(half)
        client = await stack.enter_async_context(Caller(address))
        client.send(REQUEST)
        assert await client.hear() == b"HTTP/1.1 200 OK | moored /"


async def test_when_all_connections_are_at_work_a_new_one_is_told_so(
    quay: Quay, address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HTTP_CONNECTIONS", 2)
    quay.may_answer.clear()
    async with AsyncExitStack() as stack:
        busy = [await stack.enter_async_context(Caller(address)) for _ in "12"]
        for caller in busy:
            caller.send(REQUEST)
        await quay.until_asked(2)
        late = await stack.enter_async_context(Caller(address))
        assert (await late.hear()).startswith(b"HTTP/1.1 503 Service Unavailable | ")
        assert await late.is_closed()
        quay.may_answer.set()
        for caller in busy:
            assert await caller.hear() == b"HTTP/1.1 200 OK | moored /"
