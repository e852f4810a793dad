"""TLS beneath HTTP: a connection has its place from its first moment on, and costs little memory.

asyncio makes a protocol known to its server only once the caller has shaken hands, waits 60 s for
that, and keeps a buffer of 256 KiB for each connection. So whoever sends nothing would count
nowhere. Here the layer of TLS is the protocol that counts, until HTTP takes its place over.
"""

from __future__ import annotations

import asyncio
import ssl
from asyncio.sslproto import SSLProtocol
from typing import TYPE_CHECKING, Any, cast

from mooring import http_limits
from mooring.http_bounds import Placed

if TYPE_CHECKING:
    from collections.abc import Callable

    from mooring.http_bounds import Places
    from mooring.http_refusals import Refusals


class Handshake(Placed, SSLProtocol):
    """A connection that is shaking hands; afterwards, the layer of TLS beneath its protocol.

    Beside as many connections as there may be, some more may shake hands, so that somebody can be
    told that all are at work. When there are too many of these, a new one takes the place of the
    connection that has kept the server waiting the longest.
    """

    # A record of TLS and its frame. Each connection has a buffer as large, which asyncio reads
    # from this attribute of a class that it does not document, and offers no other way to set.
    max_size = http_limits.TLS_BUFFER_BYTES

    def __init__(
        self,
        context: ssl.SSLContext,
        make: Callable[[], asyncio.Protocol],
        places: Places,
        refusals: Refusals,
    ) -> None:
        """Lead to what `make` returns, over TLS.

        The handshake has one of the listener's `places` until it ends. Where callers have to show
        a certificate, the `refusals` hear of those that did not come in.
        """
        loop = asyncio.get_running_loop()
        super().__init__(
            loop,
            _Entrance(self, make),
            context,
            # Nobody waits for it, and for whole seconds only the types ask.
            cast("asyncio.Future[None]", None),
            server_side=True,
            ssl_handshake_timeout=cast("int", http_limits.HTTP_HEAD_WAIT_S),
        )
        self.heard_at = loop.time()
        self.line: asyncio.Transport
        """What lies beneath TLS."""
        self._places, self._is_over = places, False
        self._refusals = refusals if context.verify_mode is ssl.CERT_REQUIRED else None

    @property
    def is_awaited(self) -> bool:
        return True

    def give_way(self) -> None:
        self.line.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.line = cast("asyncio.Transport", transport)
        if self._places.make_room(beside=http_limits.HTTP_ACCEPTED):
            self._places.add(self)
            super().connection_made(transport)
        else:
            self.line.abort()

    def leave(self) -> None:
        """Count no more: the handshake has ended, well or not."""
        self._places.discard(self)
        self._is_over = True

    # What asyncio calls with whatever ends a connection, and says in its debug mode alone.
    def _fatal_error(self, exc: BaseException, message: str = "Fatal error on transport") -> None:
        if self._refusals is not None and not self._is_over:
            self._refusals.tell_handshake(exc, self.line.get_extra_info("peername"))
        super()._fatal_error(exc, message)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.leave()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """End the handshake, as the server ends."""
        self.line.abort()


class _Entrance(asyncio.Protocol):
    """Stands in for the protocol, which is made when somebody comes in."""

    def __init__(self, handshake: Handshake, make: Callable[[], asyncio.Protocol]) -> None:
        self._handshake, self._make = handshake, make

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._handshake.leave()
        # The one that asyncio documents, and its twin: 512 KiB of each connection's answers could
        # wait otherwise, and 256 KiB of what was sent ahead.
        bounded = cast("Any", transport)
        bounded.set_write_buffer_limits(high=http_limits.TLS_WAITING_BYTES)
        bounded.set_read_buffer_limits(high=http_limits.TLS_WAITING_BYTES)
        protocol = self._make()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)
