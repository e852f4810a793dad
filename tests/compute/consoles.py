"""Consoles of servers as their users open them: by the URL that the cloud gives, by websocket."""

from __future__ import annotations

import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

from mooring import certificates
from mooring.http_server import listening
from tests.compute.cloud import ComputeCloud
from tests.web.quay import show

WANTED = {"remote_console": {"protocol": "serial", "type": "serial"}}


async def console_url(cloud: ComputeCloud, server_id: str) -> str:
    """Return the URL of a server's console."""
    answer = await cloud.ask("POST", f"/servers/{server_id}/remote-consoles", WANTED)
    assert answer.status == 200, answer.text
    console = answer.body["remote_console"]
    assert (console["protocol"], console["type"]) == ("serial", "serial")
    return console["url"]


def token_of(url: str) -> str:
    return urlsplit(url).query.removeprefix("token=")


class Consoles:
    """The cloud's listener, on a port of its own."""

    def __init__(self, place: str, trusted: ssl.SSLContext | None) -> None:
        self.place, self._trusted = place, trusted

    @asynccontextmanager
    async def open(self, url: str, **how: Any) -> AsyncGenerator[ClientConnection]:
        """Open a console; the URL names the cloud, and the port is the test's."""
        how |= {"ssl": self._trusted} if self._trusted else {}
        scheme = "wss" if self._trusted else "ws"
        at = urlsplit(url)._replace(scheme=scheme, netloc=self.place).geturl()
        async with connect(at, subprotocols=[Subprotocol("binary")], proxy=None, **how) as console:
            yield console


@asynccontextmanager
async def consoles_of(cloud: ComputeCloud, *, is_tls: bool = False) -> AsyncGenerator[Consoles]:
    """Serve the cloud on a socket until the block ends."""
    held, shown = show()
    context, trusted = None, None
    if is_tls:
        context, trusted = shown, certificates.client_context(held.authority)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        async with listening(
            cloud.cloud.app, listener, context=context, hears_signals=False, has_sockets=True
        ):
            yield Consoles(f"{host}:{port}", trusted)


async def hears(console: ClientConnection, words: bytes) -> bytes:
    """Return what came until these words did."""
    heard = b""
    while words not in heard:
        piece = await console.recv()
        assert isinstance(piece, bytes)
        heard += piece
    return heard
