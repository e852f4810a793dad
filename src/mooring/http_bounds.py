"""One connection of the HTTP server, bounded before anybody has shown a token.

Uvicorn reads heads of any length, lets requests queue without end behind the one that is answered,
waits for ever for the rest of a head, and takes connections until the process has no files left.
Here all four have an end.
"""

from __future__ import annotations

import resource
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from mooring import limits

if TYPE_CHECKING:
    import asyncio


def allow_connections() -> None:
    """Let this process have as many files open as the system lets it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def most_connections() -> int:
    """Return how many there may be at a time: half of the files at most, databases need some."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(limits.HTTP_CONNECTIONS, files // 2)


class BoundedProtocol(HttpToolsProtocol):
    """A connection with a bound on its heads, on its haste, on its patience and on its number.

    A head that is too long is answered 431. Who sends too many requests ahead of their answers,
    does not finish a head in time, or reads nothing of an answer, is cut off. When there are too
    many connections, a new one takes the place of the one that has kept the server waiting the
    longest, or is answered 503.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._unread = self._head = self._headers = 0
        self._is_in_head = True
        self.heard_at: float = self.loop.time()
        """When it sent something last, in seconds of the loop's clock; at first its begin."""
        self._patience: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._refusal = HTTPStatus.BAD_REQUEST

    @property
    def is_idle(self) -> bool:
        """Whether it is owed no answer."""
        cycle = cast("RequestResponseCycle | None", self.cycle)
        return not self.pipeline and (cycle is None or cycle.response_complete)

    @property
    def is_awaited(self) -> bool:
        """Whether it is its caller's turn: to ask, to send the rest, or to read the answer."""
        return self.is_idle or self._stalled is not None or self.cycle.more_body

    # -- its number ---------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:
        has_room = len(self.connections) < most_connections() or self._displace()
        super().connection_made(transport)
        if has_room:
            self._await_head()
        else:
            # It counts no more, however long its end takes.
            self.connections.discard(self)
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "All connections are at work. Try again.")
            self.loop.call_later(limits.HTTP_HEAD_WAIT_S, transport.abort)

    def _displace(self) -> bool:
        """End the connection that keeps the server waiting the longest; return whether one does."""
        known: list[Any] = list(self.connections)
        awaited: list[BoundedProtocol] = [
            one for one in known if one.is_awaited and not one.transport.is_closing()
        ]
        if awaited:
            longest = min(awaited, key=lambda one: one.heard_at)
            self.connections.discard(longest)
            longest.transport.abort()
        return bool(awaited)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        self._stop_expecting()
        super().connection_lost(exc)

    # -- its patience -------------------------------------------------------------------------

    def _await_head(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(limits.HTTP_HEAD_WAIT_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if self.is_idle:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stop_expecting()
        self._stalled = self.loop.call_later(limits.HTTP_READ_WAIT_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_expecting()

    def _stop_expecting(self) -> None:
        """Expect no more that an answer is read: whoever reads nothing for too long is cut off."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    # -- its heads, and its haste -------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self.heard_at = self.loop.time()
        self._unread += len(data)
        if self._is_in_head or self.is_idle:
            self._await_head()
        super().data_received(data)
        # Of a head, but also of what stands around the pieces of a body and behind them.
        if self._unread > limits.HTTP_HEAD_BYTES:
            self._refuse_head()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head = self._headers = 0

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._headers += 1
        self._count(len(name) + len(value))

    def _count(self, size: int) -> None:
        """Count what the head has so far. An error ends the parsing, and is told by `_refusal`."""
        self._head += size
        if self._head > limits.HTTP_HEAD_BYTES or self._headers > limits.HTTP_HEADERS:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise ValueError("the head of the request is too long")

    def on_headers_complete(self) -> None:
        self._is_in_head, self._unread = False, 0
        self._stop_waiting()
        if len(self.pipeline) >= limits.HTTP_PIPELINED:
            raise ValueError("too many requests were sent ahead of their answers")
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_in_head, self._unread = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.pipeline:
            # The ones before these are answered first; uvicorn would read on meanwhile.
            self.flow.pause_reading()

    # -- its refusal --------------------------------------------------------------------------

    def send_400_response(self, msg: str) -> None:
        """Answer what could not be parsed, or was stopped in it; see `_refuse`."""
        if self._refusal is HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
            self._refuse_head()
        else:
            self._refuse(self._refusal, msg)

    def _refuse_head(self) -> None:
        self._refuse(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"A request has at most {limits.HTTP_HEAD_BYTES} bytes of request line and headers, "
            f"and {limits.HTTP_HEADERS} headers.",
        )

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer and close; without an answer where another one is being written."""
        if self.is_idle:
            content = message.encode("ascii")
            head = (
                f"HTTP/1.1 {status.value} {status.phrase}\r\n"
                "content-type: text/plain; charset=utf-8\r\n"
                f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode("ascii") + content)
        self.transport.close()
