"""The socket that a process listens on."""

from __future__ import annotations

import asyncio
import socket

import pytest

from mooring.sockets import open_listener

pytestmark = pytest.mark.anyio


async def test_answers_are_sent_without_delay() -> None:
    accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def met(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served = writer.get_extra_info("socket")
        accepted.set_result(served.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listener = open_listener("127.0.0.1", 0)
    server = await asyncio.start_server(met, sock=listener)
    async with server:
        _, writer = await asyncio.open_connection(*listener.getsockname())
        assert await accepted == 1
        writer.close()
        await writer.wait_closed()
