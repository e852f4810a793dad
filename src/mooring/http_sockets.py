"""One websocket of the HTTP server, bounded as its connections are.

Uvicorn keeps a connection for ever whose head its library for websockets does not take, answers
pings that nobody reads the answers of, and waits without end for whoever reads nothing, also once
it has hung up.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from mooring import http_limits
from mooring.http_bounds import ReadInTime

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent
    from websockets.frames import Frame

_FRAGMENTS = 64
"""Pieces of a message that are kept apart: an empty one takes room, too."""
_NO_TEXT = 1007
"""Why a message of text that is not UTF-8 ends a websocket (RFC 6455 7.4.1)."""
_REFUSAL = b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class BoundedSocket(ReadInTime, WebSocketsSansIOProtocol):
    """A websocket that is cut off when it cannot begin, and when its client reads nothing."""

    _ending: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if not (self.handshake_initiated or self.transport.is_closing()):
            # The head comes in one piece, and was none of a websocket's.
            self.transport.write(b"".join(self.conn.data_to_send()) or _REFUSAL)
            self.transport.close()
            self._await_end()

    def handle_ping(self) -> None:
        if self.writable.is_set():
            super().handle_ping()
        else:
            # Who reads nothing hears no answer.
            self.conn.data_to_send()

    def handle_cont(self, event: Frame) -> None:
        super().handle_cont(event)
        if len(self.frames) > _FRAGMENTS:
            self.frames = [b"".join(self.frames)]

    def send_receive_event_to_app(self) -> None:
        if self.close_sent or self.curr_msg_data_type != "text" or _is_text(b"".join(self.frames)):
            super().send_receive_event_to_app()
        else:
            # Of this one uvicorn would say in the log, with a traceback, what it made of it.
            self.frames = []
            self.conn.send_close(_NO_TEXT)
            self.handle_parser_exception()

    def keepalive_timeout(self) -> None:
        if self.read_paused:
            # Its answer lies behind what nobody takes now.
            self.pong_timer = self.pending_ping_payload = None
            self.schedule_ping()
        else:
            super().keepalive_timeout()
            self._await_end()

    async def send(self, message: ASGISendEvent) -> None:
        await super().send(message)
        if self.close_sent:
            # Else uvicorn says of each refusal, in the log, that there was none.
            self.handshake_complete = True

    async def run_asgi(self) -> None:
        try:
            await super().run_asgi()
        finally:
            self._await_end()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ending is not None:
            self._ending.cancel()
        super().connection_lost(exc)

    def _await_end(self) -> None:
        """Cut off, in a while, who does not read how it ended: closing waits until that is read."""
        if self._ending is None and not self.disconnected:
            self._ending = self.loop.call_later(http_limits.SOCKET_END_S, self.transport.abort)


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
