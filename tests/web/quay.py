"""A server that answers when it may, in the clear and over TLS, and callers without manners."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Self

import pytest
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp

from mooring import certificates
from mooring.certificates import Held
from mooring.http_server import listening
from tests.fleet.members import certify, now

HEAD = b"GET / HTTP/1.1\r\nHost: quay\r\n"
REQUEST = HEAD + b"\r\n"
PATIENCE_S = 10.0
_MORE_THAN_SOCKETS_HOLD = 32 << 20


class Berth(Struct, frozen=True):
    """Where a server is, and whom to trust there; nobody in the clear."""

    address: tuple[str, int]
    trusted: ssl.SSLContext | None = None


class Quay:
    """An application that answers when it may, and counts what it was asked."""

    def __init__(self) -> None:
        self.asked, self.more = 0, 0
        """How often it was asked, and how many bytes more its answers have."""
        self.waits_for_bodies = False
        self.bodies: list[bytes] = []
        """Those that it waited for."""
        self._was_asked = asyncio.Condition()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async with self._was_asked:
            self.asked += 1
            self._was_asked.notify_all()
        path = Request(scope).url.path
        if self.waits_for_bodies:
            self.bodies.append(await Request(scope, receive).body())
        await self.may_answer.wait()
        await PlainTextResponse(f"moored {path}" + "." * self.more)(scope, receive, send)

    async def until_asked(self, times: int) -> None:
        async with asyncio.timeout(PATIENCE_S), self._was_asked:
            await self._was_asked.wait_for(lambda: self.asked >= times)


class Caller:
    """A connection without manners."""

    def __init__(self, berth: Berth) -> None:
        self._berth = berth
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection(
            *self._berth.address, ssl=self._berth.trusted
        )
        return self

    async def __aexit__(self, *error: object) -> None:
        self._writer.transport.abort()

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    def pause(self) -> None:
        """Read nothing from now on."""
        transport: Any = self._writer.transport
        transport.pause_reading()

    async def until_gone(self, data: bytes = bytes(_MORE_THAN_SOCKETS_HOLD)) -> None:
        """Wait until what is sent is refused: nothing else tells whoever does not read."""
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(ConnectionError):
                await self._push(data)

    async def _push(self, data: bytes) -> None:
        while True:
            self.send(data)
            await self._writer.drain()

    async def hear_head(self) -> bytes:
        """Return the head of the next answer."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._reader.readuntil(b"\r\n\r\n")

    async def hear(self) -> bytes:
        """Return the status line and body of the next answer."""
        async with asyncio.timeout(PATIENCE_S):
            head = await self._reader.readuntil(b"\r\n\r\n")
            lengths = [
                int(line.split(b":")[1]) for line in head.splitlines() if b"content-length" in line
            ]
            return head.split(b"\r\n")[0] + b" | " + await self._reader.readexactly(lengths[0])

    async def hear_end(self) -> bytes:
        """Return all that comes until the connection is closed."""
        async with asyncio.timeout(PATIENCE_S):
            return await self._reader.read()

    async def is_closed(self) -> bool:
        """Wait for the end of the connection; whether nothing came before it."""
        async with asyncio.timeout(PATIENCE_S):
            try:
                return await self._reader.read() == b""
            except ConnectionResetError:
                return True


def show() -> tuple[Held, ssl.SSLContext]:
    """What a server holds, and how it shows that."""
    authority = certificates.make_authority(now())
    held = Held(*certify(authority, "quay", "e1"), authority.certificate)
    return held, certificates.server_context(held, asks_callers=False)


@asynccontextmanager
async def berthed(
    quay: ASGIApp, *, is_tls: bool, has_sockets: bool = False
) -> AsyncGenerator[Berth]:
    """Serve until the block ends."""
    held, shown = show()
    context, trusted = None, None
    if is_tls:
        context, trusted = shown, certificates.client_context(held.authority)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with listening(
            quay, listener, context=context, hears_signals=False, has_sockets=has_sockets
        ):
            yield Berth(listener.getsockname(), trusted)
        if isinstance(quay, Quay):
            quay.may_answer.set()
