"""What whoever has no token can make the server hold is bounded: heads, haste, patience, number."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

import pytest

from mooring import http_limits
from tests.web.quay import HEAD, REQUEST, Berth, Caller, Quay, berthed

pytestmark = pytest.mark.anyio


@pytest.fixture
async def quay() -> Quay:
    return Quay()


@pytest.fixture(params=["clear", "tls"])
async def berth(quay: Quay, request: pytest.FixtureRequest) -> AsyncGenerator[Berth]:
    async with berthed(quay, is_tls=request.param == "tls") as made:
        yield made


@pytest.mark.parametrize(
    "head",
    [
        pytest.param(
            b"GET /" + b"a" * http_limits.HTTP_HEAD_BYTES + b" HTTP/1.1\r\nHost: quay\r\n\r\n",
            id="url",
        ),
        pytest.param(HEAD + b"A: " + b"a" * http_limits.HTTP_HEAD_BYTES + b"\r\n\r\n", id="header"),
        pytest.param(HEAD + b"A: b\r\n" * http_limits.HTTP_HEADERS + b"\r\n", id="headers"),
        pytest.param(HEAD + b"A: " + b"a" * http_limits.HTTP_HEAD_BYTES * 2, id="without end"),
    ],
)
async def test_a_head_that_is_too_long_is_refused(quay: Quay, berth: Berth, head: bytes) -> None:
    async with Caller(berth) as caller:
        caller.send(head)
        assert (await caller.hear()).startswith(b"HTTP/1.1 431 Request Header Fields Too Large | ")
        assert await caller.is_closed()
    assert quay.asked == 0


async def test_a_long_head_and_a_long_body_are_taken(quay: Quay, berth: Berth) -> None:
    size = 4 * http_limits.HTTP_HEAD_BYTES
    more = b"A: " + b"a" * 32768 + b"\r\nContent-Length: %d\r\n\r\n" % size
    async with Caller(berth) as caller:
        for _ in range(2):
            caller.send(b"PUT / HTTP/1.1\r\nHost: quay\r\n" + more + b"b" * size)
            assert await caller.hear() == b"HTTP/1.1 200 OK | moored /"


async def test_what_stands_behind_a_body_without_end_is_cut_off(quay: Quay, berth: Berth) -> None:
    trailer = b"X: " + b"a" * http_limits.HTTP_HEAD_BYTES * 4
    async with Caller(berth) as caller:
        caller.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n")
        assert await caller.hear() == b"HTTP/1.1 200 OK | moored /"
        caller.send(trailer)
        assert await caller.is_closed()
    assert quay.asked == 1


async def test_who_does_not_finish_a_body_that_was_answered_is_cut_off(
    berth: Berth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "HTTP_HEAD_WAIT_S", 0.2)
    async with Caller(berth) as caller:
        caller.send(b"PUT / HTTP/1.1\r\nHost: quay\r\nContent-Length: 9\r\n\r\n")
        assert await caller.hear() == b"HTTP/1.1 200 OK | moored /"
        caller.send(b"1")
        assert await caller.is_closed()


async def test_who_reads_nothing_of_his_answers_is_cut_off(
    quay: Quay, berth: Berth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "HTTP_READ_WAIT_S", 0.2)
    quay.more = 64 << 20
    async with Caller(berth) as caller:
        caller.pause()
        caller.send(REQUEST)
        await quay.until_asked(1)
        await caller.until_gone()


async def test_what_is_no_request_is_answered_400(berth: Berth) -> None:
    async with Caller(berth) as caller:
        caller.send(b"nonsense\r\n\r\n")
        assert (await caller.hear()).startswith(b"HTTP/1.1 400 Bad Request | ")
        assert await caller.is_closed()


async def test_a_few_requests_may_be_sent_ahead_and_are_answered_in_their_order(
    quay: Quay, berth: Berth
) -> None:
    async with Caller(berth) as caller:
        quay.may_answer.clear()
        for number in range(http_limits.HTTP_PIPELINED):
            caller.send(b"GET /%d HTTP/1.1\r\nHost: quay\r\n\r\n" % number)
        await quay.until_asked(1)
        quay.may_answer.set()
        for number in range(http_limits.HTTP_PIPELINED):
            assert await caller.hear() == b"HTTP/1.1 200 OK | moored /%d" % number


async def test_who_sends_a_thousand_ahead_is_cut_off(quay: Quay, berth: Berth) -> None:
    quay.may_answer.clear()
    async with Caller(berth) as caller:
        caller.send(REQUEST * 1000)
        assert await caller.is_closed()
    assert quay.asked <= 1


@pytest.mark.parametrize("sent", [b"", b"GET / HT", HEAD])
async def test_who_does_not_finish_a_head_is_cut_off(
    berth: Berth, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "HTTP_HEAD_WAIT_S", 0.2)
    async with Caller(berth) as caller:
        caller.send(sent)
        assert await caller.is_closed()


async def test_who_waits_for_an_answer_is_not_cut_off(
    quay: Quay, berth: Berth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "HTTP_HEAD_WAIT_S", 0.1)
    quay.may_answer.clear()
    async with Caller(berth) as caller, Caller(berth) as witness:
        caller.send(REQUEST + b"GET /next HT")
        await quay.until_asked(1)
        assert await witness.is_closed(), "the patience of both has run out"
        quay.may_answer.set()
        assert await caller.hear() == b"HTTP/1.1 200 OK | moored /"
        caller.send(b"TP/1.1\r\nHost: quay\r\n\r\n")
        assert await caller.hear() == b"HTTP/1.1 200 OK | moored /next"


async def test_a_new_connection_takes_the_place_of_the_one_that_was_silent_longest(
    berth: Berth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "HTTP_CONNECTIONS", 3)
    async with AsyncExitStack() as stack:
        first, second, third = [await stack.enter_async_context(Caller(berth)) for _ in "123"]
        for caller in (second, third, first):
            caller.send(REQUEST)
            await caller.hear()
        fourth = await stack.enter_async_context(Caller(berth))
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
    quay: Quay, berth: Berth, half: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    quay.waits_for_bodies = True
    monkeypatch.setattr(http_limits, "HTTP_CONNECTIONS", 20)
    async with AsyncExitStack() as stack:
        for _ in range(100):
            caller = await stack.enter_async_context(Caller(berth))
            caller.send(half)
        client = await stack.enter_async_context(Caller(berth))
        client.send(REQUEST)
        assert await client.hear() == b"HTTP/1.1 200 OK | moored /"


async def test_when_all_connections_are_at_work_a_new_one_is_told_so(
    quay: Quay, berth: Berth, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_limits, "HTTP_CONNECTIONS", 2)
    quay.may_answer.clear()
    async with AsyncExitStack() as stack:
        busy = [await stack.enter_async_context(Caller(berth)) for _ in "12"]
        for caller in busy:
            caller.send(REQUEST)
        await quay.until_asked(2)
        late = await stack.enter_async_context(Caller(berth))
        assert (await late.hear()).startswith(b"HTTP/1.1 503 Service Unavailable | ")
        assert await late.is_closed()
        quay.may_answer.set()
        for caller in busy:
            assert await caller.hear() == b"HTTP/1.1 200 OK | moored /"
