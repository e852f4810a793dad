"""The HTTP server of a process: uvicorn, on a socket that is open already."""

from __future__ import annotations

import asyncio
import signal
import socket
import ssl
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

import uvicorn

from mooring import limits
from mooring.http_bounds import BoundedProtocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp


class _Server(uvicorn.Server):
    """Tells when it listens."""

    def __init__(self, config: uvicorn.Config, *, hears_signals: bool) -> None:
        super().__init__(config)
        self._numbers = (signal.SIGINT, signal.SIGTERM) if hears_signals else ()
        self.listens = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listens.set()

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
    hears_signals: bool = True,
) -> AsyncGenerator[asyncio.Task[None]]:
    """Serve an application until the block ends, over TLS with a context.

    The task it gives ends with SIGINT or SIGTERM; of several in one process, one `hears_signals`.
    """
    config = uvicorn.Config(
        app,
        ssl_context_factory=None if context is None else lambda _config, _default: context,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        # asyncio accepts so many in a row, and of those it has no files for it logs each.
        backlog=limits.HTTP_ACCEPTED,
        timeout_keep_alive=limits.SERVER_IDLE_S,
        timeout_graceful_shutdown=limits.SHUTDOWN_S,
    )
    server = _Server(config, hears_signals=hears_signals)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    started = asyncio.create_task(server.listens.wait())
    try:
        await asyncio.wait({serving, started}, return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            listener.listen(limits.HTTP_BACKLOG)
        yield serving
    finally:
        started.cancel()
        server.should_exit = True
        await asyncio.gather(serving, return_exceptions=True)
