"""Who wishes for a protocol that is not spoken here is answered in this one, and hides nothing."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator

import pytest

from tests.web.quay import HEAD, REQUEST, Berth, Caller, Quay, berthed

pytestmark = pytest.mark.anyio
_WISH = (
    b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n"
)
_MOORED = b"HTTP/1.1 200 OK | moored /"


@pytest.fixture
async def quay() -> Quay:
    return Quay()


@pytest.fixture(params=[False, True], ids=["http", "websockets, too"])
async def berth(quay: Quay, request: pytest.FixtureRequest) -> AsyncGenerator[Berth]:
    async with berthed(quay, is_tls=False, has_sockets=request.param) as made:
        yield made


async def test_what_was_sent_behind_a_wish_is_answered(berth: Berth) -> None:
    async with Caller(berth) as caller:
        caller.send(HEAD + _WISH + b"\r\n" + HEAD + _WISH + b"\r\n" + REQUEST)
        assert [await caller.hear() for _ in range(3)] == [_MOORED] * 3
        caller.send(REQUEST)
        assert await caller.hear() == _MOORED


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"Content-Length: %d\r\n\r\n" % len(REQUEST) + REQUEST, id="length"),
        pytest.param(
            b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(REQUEST), REQUEST),
            id="pieces",
        ),
    ],
)
async def test_a_body_is_read_and_never_taken_for_a_request(
    quay: Quay, berth: Berth, body: bytes
) -> None:
    quay.waits_for_bodies = True
    wished = HEAD.replace(b"GET", b"POST") + _WISH + body
    for end in range(len(wished) - len(body), len(wished)):
        async with Caller(berth) as caller:
            asked = quay.asked
            caller.send(wished[:end])
            if b"\r\n\r\n" in wished[:end]:
                await quay.until_asked(asked + 1)
            caller.send(wished[end:] + REQUEST)
            assert [await caller.hear() for _ in range(2)] == [_MOORED] * 2
            assert quay.asked == asked + 2
            assert quay.bodies == [REQUEST, b""]
            quay.bodies.clear()


@pytest.mark.parametrize(
    "framed",
    [
        pytest.param(b"Transfer-Encoding: gzip\r\n\r\n", id="in no pieces"),
        pytest.param(b"Transfer-Encoding: chunked\r\n\r\nmuch\r\n", id="of no length"),
    ],
)
async def test_a_body_that_nobody_can_read_ends_the_connection(
    quay: Quay, berth: Berth, framed: bytes
) -> None:
    quay.waits_for_bodies = True
    async with Caller(berth) as caller:
        caller.send(HEAD.replace(b"GET", b"POST") + _WISH + framed + REQUEST)
        assert await caller.is_closed()
    assert quay.bodies == []


async def test_who_is_not_understood_fills_no_log(
    berth: Berth, caplog: pytest.LogCaptureFixture
) -> None:
    async with Caller(berth) as caller:
        caller.send(HEAD + _WISH + b"\r\n")
        assert await caller.hear() == _MOORED
        caller.send(b"\0\r\n\r\n")
        assert b" 400 " in await caller.hear()
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
