"""The socket that a process listens on."""

from __future__ import annotations

import asyncio
import socket

import pytest

from mooring.errors import Invalid, Unavailable
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


async def test_what_cannot_be_listened_on_is_told_with_what_chooses_another() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=r"in use\. .* with the setting hosts_listen"):
            open_listener("127.0.0.1", port, given_by="the setting hosts_listen")
    # Of the block for documentation: no machine has it.
    with pytest.raises(Invalid, match=r"203\.0\.113\.1:0 cannot .* with --address ADDR:PORT"):
        open_listener("203.0.113.1", 0, given_by="--address ADDR:PORT")
