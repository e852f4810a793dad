"""One connection of the HTTP server, bounded before anybody has shown a token.

Uvicorn reads heads of any length, lets requests queue without end behind the one that is answered,
waits for ever for the rest of a head, and takes connections until the process has no files left.
Here all four have an end. What comes before HTTP over TLS is bounded in `http_tls`.
"""

from __future__ import annotations

import asyncio
import resource
from abc import ABC, abstractmethod
from collections import deque
from heapq import nsmallest
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from mooring import http_limits, limits

if TYPE_CHECKING:
    from collections.abc import Callable

_FOUND_AT_ONCE = 64
_NOT_UNDERSTOOD = "Invalid HTTP request received."
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


def allow_connections() -> None:
    """Let this process have as many files open as the system lets it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def most_connections() -> int:
    """Return how many there may be at a time: half of the files at most, databases need some."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(http_limits.HTTP_CONNECTIONS, files // 2)


def most_joining() -> int:
    """Return how many there may be where hosts join, beside those of the APIs in this process."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return min(limits.JOIN_CONNECTIONS, files // 8)


class Placed(ABC):
    """A connection that has one of a listener's places, and may have to give it to another."""

    heard_at: float
    """When it sent something last, in seconds of the loop's clock; at first its begin."""

    @property
    @abstractmethod
    def is_awaited(self) -> bool:
        """Whether it is its caller's turn."""

    @abstractmethod
    def give_way(self) -> None:
        """End it now, whatever is still on its way."""


class Places(set[Any]):
    """The connections of a listener: uvicorn's set of them, with a bound.

    When there are too many, a new one takes the place of the one that has kept the server waiting
    the longest. Those that are no `Placed` keep their places.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        """Have as many as `most` returns whenever one comes."""
        super().__init__()
        self._most = most
        self._next: deque[tuple[float, Placed]] = deque()

    def make_room(self, beside: int = 0) -> bool:
        """Make room for one more, or for one of `beside` more; return whether there is."""
        return len(self) < self._most() + beside or self.displace()

    def displace(self) -> bool:
        """End the connection that keeps the server waiting the longest; return whether one does.

        It counts no more from now on.
        """
        # One look at all finds several: in a flood, a look for each would take all the time.
        return self._displace_known() or (self._look() and self._displace_known())

    def _look(self) -> bool:
        awaited = [one for one in self if isinstance(one, Placed) and one.is_awaited]
        longest = nsmallest(_FOUND_AT_ONCE, awaited, key=lambda one: one.heard_at)
        self._next.extend((one.heard_at, one) for one in longest)
        return bool(longest)

    def _displace_known(self) -> bool:
        while self._next:
            heard_at, one = self._next.popleft()
            if one in self and one.is_awaited and one.heard_at == heard_at:
                self.discard(one)
                one.give_way()
                return True
        return False


class ReadInTime(asyncio.Protocol):
    """A connection that is cut off when its client reads nothing of what it was sent."""

    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _stalled: asyncio.TimerHandle | None = None

    def pause_writing(self) -> None:
        """Begin to wait for the client: there is no room for what it has not read."""
        super().pause_writing()
        self._stop_expecting()
        self._stalled = self.loop.call_later(http_limits.HTTP_READ_WAIT_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Wait no more: it has read."""
        super().resume_writing()
        self._stop_expecting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more: it is gone."""
        self._stop_expecting()
        super().connection_lost(exc)

    def _stop_expecting(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


class BoundedProtocol(ReadInTime, Placed, HttpToolsProtocol):
    """A connection with a bound on its heads, on its haste, on its patience and on its number.

    A head that is too long is answered 431. Who sends too many requests ahead of their answers,
    does not finish a head in time, or reads nothing of an answer, is cut off. When there are too
    many connections, a new one takes the place of the one that has kept the server waiting the
    longest, or is answered 503.
    """

    connections: Places
    parser: httptools.HttpRequestParser | None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._unread = self._head = self._headers = 0
        self._is_in_head = True
        self.heard_at = self.loop.time()
        self._patience: asyncio.TimerHandle | None = None
        self._refusal = HTTPStatus.BAD_REQUEST
        self._is_refused = self._lacks_body = self._is_known = False

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

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        has_room = self.connections.make_room()
        super().connection_made(cast("asyncio.Transport", transport))
        if has_room:
            self._await_head()
        else:
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "All connections are at work. Try again.")
            self.loop.call_later(http_limits.HTTP_HEAD_WAIT_S, self.transport.abort)

    def give_way(self) -> None:
        self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    # -- its patience -------------------------------------------------------------------------

    def _await_head(self) -> None:
        if self._patience is None:
            self._patience = self.loop.call_later(http_limits.HTTP_HEAD_WAIT_S, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if self.is_idle:
            self._end()

    # -- its heads, and its haste -------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._is_refused or self.transport.is_closing():
            return
        self.heard_at = self.loop.time()
        self._unread += len(data)
        if self._is_in_head or self.is_idle:
            self._await_head()
        self._unset_keepalive_if_required()
        self._parse(data)
        # Of a head, but also of what stands around the pieces of a body and behind them.
        if self._unread > http_limits.HTTP_HEAD_BYTES:
            self._refuse_head()

    def _parse(self, data: bytes) -> None:
        """Parse what has come.

        Uvicorn would say of everybody whom it does not understand, in the log, that there was one,
        and drop what comes behind a wish for a protocol that it does not speak: a body, too.
        """
        while data or self._lacks_body:
            if self.parser is None or self.transport.is_closing():
                return
            try:
                if self._lacks_body:
                    self._begin_body()
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as wish:
                if self._should_upgrade():
                    self.handle_websocket_upgrade()
                    return
                data = data[wish.args[0] :]
            except httptools.HttpParserError:
                self.send_400_response(_NOT_UNDERSTOOD)
                return
            else:
                return

    def _begin_body(self) -> None:
        """Have a new parser read the body: one that has met such a wish takes it for a request.

        It is shown how the body is framed, in a head that is known already.
        """
        framing = [b"%s: %s\r\n" % one for one in self.headers if one[0] in _FRAMING]
        self.parser = httptools.HttpRequestParser(self)
        self._lacks_body, self._is_known = False, True
        self.parser.feed_data(b"".join([b"POST / HTTP/1.1\r\n", *framing, b"\r\n"]))
        self._is_known = False

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_begin(self) -> None:
        if self._is_known:
            return
        super().on_message_begin()
        self._head = self._headers = 0

    def on_url(self, url: bytes) -> None:
        if self._is_known:
            return
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_known:
            return
        super().on_header(name, value)
        self._headers += 1
        self._count(len(name) + len(value))

    def _count(self, size: int) -> None:
        """Count what the head has so far. An error ends the parsing, and is told by `_refusal`."""
        self._head += size
        if self._head > http_limits.HTTP_HEAD_BYTES or self._headers > http_limits.HTTP_HEADERS:
            self._refusal = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
            raise ValueError("the head of the request is too long")

    def on_headers_complete(self) -> None:
        if self._is_known:
            return
        self._lacks_body = self._wishes_in_vain() and self._has_body()
        self._is_in_head, self._unread = False, 0
        self._stop_waiting()
        if len(self.pipeline) >= http_limits.HTTP_PIPELINED:
            raise ValueError("too many requests were sent ahead of their answers")
        super().on_headers_complete()

    def _wishes_in_vain(self) -> bool:
        """Whether a request is for another protocol, which is not spoken here."""
        wishes = self.parser is not None and self.parser.should_upgrade()
        return wishes and not self._should_upgrade()

    def _has_body(self) -> bool:
        told = dict(self.headers)
        length = told.get(b"content-length", b"").strip(b"0 \t")
        return b"transfer-encoding" in told or length != b""

    def on_message_complete(self) -> None:
        if self._lacks_body:
            return
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
        if self._is_refused:
            return
        # Who is cut off while he sends hears no answer: the rest is dropped for a moment first.
        self._refuse(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
            f"A request has at most {http_limits.HTTP_HEAD_BYTES} bytes of request line and "
            f"headers, and {http_limits.HTTP_HEADERS} headers.",
            linger_s=http_limits.HTTP_LINGER_S,
        )

    def _refuse(self, status: HTTPStatus, message: str, linger_s: float = 0.0) -> None:
        """Answer and close; without an answer where the request has one, or waits for it."""
        self._is_refused = True
        if not (self.is_idle and self._is_in_head):
            self.transport.close()
            return
        content = message.encode("ascii")
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\n"
            "content-type: text/plain; charset=utf-8\r\n"
            f"content-length: {len(content)}\r\nconnection: close\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + content)
        if linger_s:
            self.loop.call_later(linger_s, self._end)
        else:
            self.transport.close()

    def _end(self) -> None:
        # Closed twice, a transport of TLS could not be cut off any more.
        if not self.transport.is_closing():
            self.transport.close()
