"""How services reach each other: inside this process when we serve that URL, else by socket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

from httpx2 import AsyncBaseTransport, AsyncHTTPTransport, Limits, Request, Response

from mooring import limits
from mooring.clients.neighbour import Application, Neighbour

Forward: TypeAlias = Callable[[Request], Awaitable[Response]]
Deliver: TypeAlias = Callable[[Request, Forward], Awaitable[Response]]


async def deliver_once(request: Request, forward: Forward) -> Response:
    """Deliver a request, once and now: what a network does when nothing goes wrong."""
    return await forward(request)


class Network(AsyncBaseTransport):
    """All that this process can reach.

    `serve` names what is served in this process and `connect` what listens on a Unix socket, both
    by the beginning of the URL; everything else takes a TCP connection. `deliver` stands before
    each call, whichever way it goes: a test that sets it may lose a call (raise without
    `forward`), lose its answer (`forward`, then raise), deliver it twice, or forward it later.
    """

    def __init__(self) -> None:
        self.deliver: Deliver = deliver_once
        self._near: dict[str, AsyncBaseTransport] = {}
        self._away: AsyncHTTPTransport | None = None

    def serve(self, url: str, application: Application) -> None:
        """Hand calls to `url` and below it to an application of this process."""
        self._near[url.rstrip("/")] = Neighbour(application)

    def connect(self, url: str, socket: Path) -> None:
        """Hand calls to `url` and below it to the server that listens on a Unix socket."""
        self._near[url.rstrip("/")] = _open(str(socket))

    def abandon(self) -> None:
        """End the calls that run in this process where they stand, as its death would."""
        for transport in self._near.values():
            if isinstance(transport, Neighbour):
                transport.abandon()

    async def handle_async_request(self, request: Request) -> Response:
        # A request with a stream of its own comes without, and HTTP/1.1 insists on it.
        request.headers.setdefault("Host", request.url.netloc.decode("ascii"))
        return await self.deliver(request, self._forward)

    async def aclose(self) -> None:
        for transport in self._near.values():
            await transport.aclose()
        if self._away is not None:
            await self._away.aclose()

    async def _forward(self, request: Request) -> Response:
        url = str(request.url).partition("?")[0]
        while True:
            near = self._near.get(url)
            if near is not None:
                return await near.handle_async_request(request)
            url, slash, _ = url.rpartition("/")
            if not slash:
                break
        self._away = self._away or _open(None)
        return await self._away.handle_async_request(request)


def _open(socket: str | None) -> AsyncHTTPTransport:
    pool = Limits(
        max_connections=limits.CLIENT_CONNECTIONS,
        max_keepalive_connections=limits.CLIENT_IDLE_CONNECTIONS,
        keepalive_expiry=limits.CLIENT_IDLE_S,
    )
    return AsyncHTTPTransport(verify=socket is None, trust_env=False, limits=pool, uds=socket)
