"""How long a client's connection is kept that it does not use."""

from __future__ import annotations

import asyncio
import socket

import pytest
from starlette.responses import PlainTextResponse

from mooring import limits
from mooring.http_server import listening

pytestmark = pytest.mark.anyio
REQUEST = b"GET / HTTP/1.1\r\nHost: quay\r\n\r\n"
PROXIES_KEEP_S = 60
"""Common for proxies in front of a service; `--wait` of the share client looks every 5 s."""


async def test_an_unused_connection_is_kept_for_as_long_as_the_limit_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert limits.SERVER_IDLE_S > PROXIES_KEEP_S > limits.CLIENT_IDLE_S
    monkeypatch.setattr(limits, "SERVER_IDLE_S", 1)
    clock = asyncio.get_running_loop().time
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with listening(PlainTextResponse("moored"), listener, hears_signals=False):
            told, ask = await asyncio.open_connection(*listener.getsockname())
            for _ in range(2):
                ask.write(REQUEST)
                assert (await told.readuntil(b"moored")).startswith(b"HTTP/1.1 200 OK")
            began = clock()
            assert await told.read() == b""
            assert 0.5 < clock() - began < 5, "neither at once nor when uvicorn would"
            ask.close()
            await ask.wait_closed()
