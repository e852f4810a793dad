"""The HTTP server of a process: uvicorn, on a socket that is open already."""

from __future__ import annotations

import asyncio
import errno
import signal
import socket
import ssl
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, cast

import structlog
import uvicorn

from mooring import http_limits, limits
from mooring.http_bounds import BoundedProtocol, Places, most_connections
from mooring.http_refusals import Refusals
from mooring.http_sockets import BoundedSocket
from mooring.http_tls import Handshake

if TYPE_CHECKING:
    from starlette.types import ASGIApp

log = structlog.get_logger()
_NONE_LEFT = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class Server(uvicorn.Server):
    """Accepts connections itself, over TLS with a context, and tells when it listens.

    uvicorn would leave that to asyncio, which counts nobody before the end of his handshake and
    logs a trace for every connection that it has no file for.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        context: ssl.SSLContext | None = None,
        most: Callable[[], int] = most_connections,
    ) -> None:
        super().__init__(config)
        self._context, self._places = context, Places(most)
        self.server_state.connections = self._places
        self.refusals = Refusals()
        self._arriving: set[asyncio.Task[object]] = set()
        self._told_at = float("-inf")
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and accept who comes."""
        await super().startup([])
        for listener in sockets or ():
            listener.settimeout(0.0)
            listener.listen(self.config.backlog)
            self._await_callers(listener)
        self.listens.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nobody more, and let those that are there end."""
        loop = asyncio.get_running_loop()
        for listener in sockets or ():
            loop.remove_reader(listener)
            listener.close()
        await asyncio.gather(*self._arriving, return_exceptions=True)
        await super().shutdown([])
        self.refusals.end()

    def _await_callers(self, listener: socket.socket) -> None:
        if listener.fileno() >= 0:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        """Accept who waits, a few in a row: what is open already has its turn between."""
        loop = asyncio.get_running_loop()
        # Those that arrive count nowhere yet.
        for _ in range(http_limits.HTTP_ACCEPTED - len(self._arriving)):
            try:
                peer, _ = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NONE_LEFT:
                    self._rest(listener, error)
                    return
                continue  # One who is gone already: Linux tells such errors of the connection here.
            arriving = loop.create_task(loop.connect_accepted_socket(self._protocol, peer))
            self._arriving.add(arriving)
            arriving.add_done_callback(self._arriving.discard)

    def _rest(self, listener: socket.socket, error: OSError) -> None:
        """Accept nobody for a moment, as there are no files left, and get one back."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(listener)
        loop.call_later(http_limits.HTTP_ACCEPT_REST_S, self._await_callers, listener)
        self._places.displace()
        if loop.time() - self._told_at >= http_limits.HTTP_ACCEPT_TOLD_S:
            self._told_at = loop.time()
            log.warning(
                "new connections have to wait", reason=str(error), remedy="raise `ulimit -n`"
            )

    def _protocol(self) -> asyncio.BaseProtocol:
        if self._context is None:
            return self._http_protocol()
        return Handshake(self._context, self._http_protocol, self._places, self.refusals)

    def _http_protocol(self) -> asyncio.Protocol:
        kind = cast("Callable[..., asyncio.Protocol]", self.config.http_protocol_class)
        return kind(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )


class _Standing(Server):
    """Ends with a signal, if it hears any."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        context: ssl.SSLContext | None,
        most: Callable[[], int],
        hears_signals: bool,
    ) -> None:
        super().__init__(config, context=context, most=most)
        self._numbers = (signal.SIGINT, signal.SIGTERM) if hears_signals else ()

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """End the serving with a signal, and nothing else.

        Uvicorn would raise the signal again once it has stopped, which kills the process before
        databases, agents and the lock of the state directory are let go.
        """
        loop = asyncio.get_running_loop()
        for number in self._numbers:
            loop.add_signal_handler(number, self.handle_exit, number, None)
        try:
            yield
        finally:
            for number in self._numbers:
                loop.remove_signal_handler(number)


@asynccontextmanager
async def listening(
    app: ASGIApp,
    listener: socket.socket,
    *,
    context: ssl.SSLContext | None = None,
    most: Callable[[], int] = most_connections,
    hears_signals: bool = True,
    has_sockets: bool = False,
) -> AsyncGenerator[asyncio.Task[None]]:
    """Serve an application until the block ends, over TLS with a context.

    There may be as many connections as `most` returns, whether they have shaken hands or not.
    The task it gives ends with SIGINT or SIGTERM; of several in one process, one `hears_signals`.
    With `has_sockets` connections may become websockets, of whose messages none is longer than
    `SOCKET_MESSAGE_BYTES`; each keeps its place.
    """
    config = uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws=BoundedSocket if has_sockets else "none",
        ws_max_size=http_limits.SOCKET_MESSAGE_BYTES,
        ws_ping_interval=http_limits.SOCKET_PING_S,
        ws_ping_timeout=http_limits.SOCKET_PING_S,
        # A message that is packed takes more room than it has on its way.
        ws_per_message_deflate=False,
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=http_limits.HTTP_BACKLOG,
        timeout_keep_alive=limits.SERVER_IDLE_S,
        timeout_graceful_shutdown=limits.SHUTDOWN_S,
    )
    server = _Standing(config, context=context, most=most, hears_signals=hears_signals)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    started = asyncio.create_task(server.listens.wait())
    try:
        await asyncio.wait({serving, started}, return_when=asyncio.FIRST_COMPLETED)
        yield serving
    finally:
        started.cancel()
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)
