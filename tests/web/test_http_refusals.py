"""Who is turned away over TLS stands in the log, and a scanner fills it no more than so far."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from mooring import certificates, http_limits
from mooring.http_server import listening
from tests.fleet.members import DAY_S, now
from tests.web.quay import PATIENCE_S, REQUEST, Berth, Quay

pytestmark = pytest.mark.anyio
TURNED_AWAY, MORE = "a stranger was turned away", "more strangers were turned away"


@asynccontextmanager
async def opened(*, asks_callers: bool = True) -> AsyncGenerator[Berth]:
    held = certificates.hold_control_plane(certificates.make_authority(now()), now(), DAY_S)
    context = certificates.server_context(held, asks_callers=asks_callers)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with listening(Quay(), listener, context=context, hears_signals=False):
            yield Berth(listener.getsockname(), certificates.client_context(held.authority))


async def scan(berth: Berth, times: int) -> None:
    """Call without TLS, so often, until one is hung up on."""
    for _ in range(times):
        reader, writer = await asyncio.open_connection(*berth.address)
        writer.write(REQUEST)
        async with asyncio.timeout(PATIENCE_S):
            assert b"HTTP" not in await reader.read()
        writer.close()


def told(lines: list[EventDict], event: str) -> list[EventDict]:
    return [one for one in lines if one["event"] == event]


async def test_the_log_names_so_many_in_a_while_and_counts_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_limits, "HTTP_REFUSALS", 3)
    monkeypatch.setattr(http_limits, "HTTP_REFUSALS_S", 3600.0)
    with capture_logs() as lines:
        async with opened() as berth:
            await scan(berth, 8)
            assert len(told(lines, TURNED_AWAY)) == 3
            assert told(lines, MORE) == []
        assert [one["left_out"] for one in told(lines, MORE)] == [5]


async def test_a_while_later_the_next_ones_are_named_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_limits, "HTTP_REFUSALS", 1)
    monkeypatch.setattr(http_limits, "HTTP_REFUSALS_S", 0.5)
    with capture_logs() as lines:
        async with opened() as berth, asyncio.timeout(PATIENCE_S):
            while not told(lines, MORE):
                await scan(berth, 1)
            named = len(told(lines, TURNED_AWAY))
            while len(told(lines, TURNED_AWAY)) == named:
                await scan(berth, 1)


async def test_who_goes_away_by_himself_or_needs_no_certificate_is_not_told_of() -> None:
    with capture_logs() as lines:
        async with opened() as berth:
            socket.create_connection(berth.address).close()
            await scan(berth, 1)
        async with opened(asks_callers=False) as berth:
            await scan(berth, 2)
    assert len(told(lines, TURNED_AWAY)) == 1


async def test_who_does_not_finish_his_handshake_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_limits, "HTTP_HEAD_WAIT_S", 0.2)
    with capture_logs() as lines:
        async with opened() as berth:
            reader, writer = await asyncio.open_connection(*berth.address)
            async with asyncio.timeout(PATIENCE_S):
                assert await reader.read() == b""
            writer.close()
    [one] = told(lines, TURNED_AWAY)
    assert "longer than 0.2 seconds" in one["reason"]
