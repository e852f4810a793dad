"""A call to an application of this process: the same rules as by socket, without the socket.

Services call each other so, and the agents that run beside them. The application runs in a task of
its own, with an empty context. The caller waits for it with a deadline; when the deadline passes,
or the caller is cancelled, the application is abandoned and never cancelled: it ends its work, and
its answer goes nowhere. Bodies that are made while they are sent, and answers that are wanted as
they come, stream through pipes of a few chunks.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    MutableMapping,
)
from contextvars import Context
from typing import Any, Protocol, TypeAlias, TypeVar
from urllib.parse import unquote

import structlog
from msgspec import Struct
from msgspec.structs import replace

from mooring import limits
from mooring.pipe import NoAnswer, Pipe, TooLate, within

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]
Body = TypeVar("Body", bytes, bytearray)

__all__ = [
    "Application",
    "Deliver",
    "Forward",
    "Neighbour",
    "NoAnswer",
    "Request",
    "Response",
    "TooLate",
    "deliver_once",
    "gather",
]
log = structlog.get_logger()


class Request(Struct, frozen=True):
    """One request: names of headers in lower case; a body, or one that is made while it is sent.

    `target` is a path with its query, for an agent, or a whole URL. `streams` says that the
    answer's body is wanted as it comes. `wait_s` bounds each wait for the other side, in seconds.
    """

    method: str
    target: str
    headers: dict[str, str]
    body: bytes | AsyncIterator[bytes] = b""
    streams: bool = False
    wait_s: float | None = None

    @property
    def path(self) -> str:
        """The path alone, decoded."""
        return unquote(_split(self.target)[2])

    @property
    def content(self) -> bytes:
        """The body; nothing of one that is made while it is sent."""
        return self.body if isinstance(self.body, bytes) else b""


class Response(Struct, frozen=True):
    """An answer: names of headers in lower case; the body, or where it comes from."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = {}
    stream: Stream | None = None

    async def whole(self, most: int = limits.CLIENT_BODY_BYTES) -> bytes:
        """Return the whole body, and let go of its source. Raises NoAnswer; for too long ones too.

        `most` is in bytes.
        """
        if self.stream is None:
            return bounded(self.body, most)
        try:
            return await gather(self.stream, most)
        finally:
            await self.stream.aclose()

    async def aclose(self) -> None:
        """Leave the rest of the body unread."""
        if self.stream is not None:
            await self.stream.aclose()


async def gather(chunks: AsyncIterable[bytes], most: int = limits.CLIENT_BODY_BYTES) -> bytes:
    """Return a body that comes in chunks. Raises NoAnswer once it is longer than `most` bytes."""
    content = bytearray()
    async for chunk in chunks:
        content += chunk
        bounded(content, most)
    return bytes(content)


def bounded(content: Body, most: int = limits.CLIENT_BODY_BYTES) -> Body:
    """Return a body that is not too long. Raises NoAnswer for one of more than `most` bytes."""
    if len(content) > most:
        raise NoAnswer(f"An answer is longer than {most} bytes.")
    return content


Forward: TypeAlias = Callable[[Request], Awaitable[Response]]
Deliver: TypeAlias = Callable[[Request, Forward], Awaitable[Response]]
"""Stands between a caller and whom it calls, to lose, repeat or hold back what passes."""


async def deliver_once(request: Request, forward: Forward) -> Response:
    """Deliver a request, once and now: what a network does when nothing goes wrong."""
    return await forward(request)


class Stream(Protocol):
    """A body as its reader sees it."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Read it in chunks. Raises NoAnswer when it breaks off."""
        ...

    async def aclose(self) -> None:
        """Leave the rest unread."""
        ...


class Neighbour:
    """One application of this process, to be called."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._running: set[asyncio.Task[None]] = set()

    async def call(self, request: Request, deliver: Deliver = deliver_once) -> Response:
        """Return the application's answer; 500 when it fails before it gives one.

        `deliver` stands before the application, in the application's task; an answer that streams
        passes it by. Raises NoAnswer, what `deliver` raises, and what a body raises that is made
        while it is sent.
        """
        call = _Call(self._application, request)
        work = call.open() if request.streams else call.ask(deliver)
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            if call.upload is not None and not isinstance(request.body, bytes):
                await call.upload.fill(request.body, request.wait_s)
            return await within(request.wait_s, call.answer)
        except BaseException:
            call.leave()
            raise

    async def aclose(self) -> None:
        """Wait for what still runs, but not for ever."""
        if self._running:
            await asyncio.wait(self._running, timeout=limits.NEIGHBOUR_CLOSE_S)

    def abandon(self) -> None:
        """End what runs where it stands, as the death of its process would."""
        for task in list(self._running):
            task.cancel()


class _Call:
    """What lies between one caller and the application."""

    def __init__(self, application: Application, request: Request) -> None:
        self._application, self._request = application, request
        self.answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self.upload: Pipe | None = None
        if not isinstance(request.body, bytes):
            self.upload = Pipe()
            self._request = replace(request, body=self.upload)
        self._gone = asyncio.Event()

    async def ask(self, deliver: Deliver) -> None:
        """Have the application answer as a whole, however often `deliver` lets it be asked."""
        try:
            response = await deliver(self._request, self._forward)
            if not self.answer.done():
                self.answer.set_result(response)
        except Exception as error:  # noqa: BLE001  (it is the caller's, whatever it is)
            if not self.answer.done():
                self.answer.set_exception(error)
        finally:
            self._end()

    async def open(self) -> None:
        """Have the application answer, and hand its answer on as it comes."""
        serving = _Serving(self._request, self._gone, Pipe(), self._start)
        try:
            await serving.run(self._application)
        finally:
            serving.end()
            self._end()

    def leave(self) -> None:
        """Leave, from the caller's side."""
        self._gone.set()
        if self.upload is not None:
            self.upload.break_off()
        if not self.answer.cancel() and not self.answer.cancelled():
            # Nobody will look at it any more: this keeps the loop from warning of a failure.
            self.answer.exception()

    async def _forward(self, request: Request) -> Response:
        serving = _Serving(request, self._gone)
        await serving.run(self._application)
        return serving.whole()

    def _start(self, status: int, headers: dict[str, str], chunks: Pipe) -> None:
        if not self.answer.done():
            stream = _Download(chunks, self, self._request.wait_s)
            self.answer.set_result(Response(status, b"", headers, stream))

    def _end(self) -> None:
        if not self.answer.done():
            self.answer.set_result(Response(500))
        if self.upload is not None:
            self.upload.leave()


class _Download:
    """An answer's body, from the caller's side."""

    def __init__(self, chunks: Pipe, call: _Call, wait_s: float | None) -> None:
        self._chunks, self._call, self._wait_s = chunks, call, wait_s

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            try:
                chunk = await within(self._wait_s, anext(self._chunks))
            except StopAsyncIteration:
                return
            yield chunk

    async def aclose(self) -> None:
        self._call.leave()
        self._chunks.leave()


class _Serving:
    """One request as the application sees it, and the answer that it gives."""

    def __init__(
        self,
        request: Request,
        gone: asyncio.Event,
        chunks: Pipe | None = None,
        start: Callable[[int, dict[str, str], Pipe], None] | None = None,
    ) -> None:
        self._request, self._gone, self._chunks, self._start = request, gone, chunks, start
        self._status, self._headers, self._content = 0, dict[str, str](), bytearray()
        self._received = self._complete = False

    async def run(self, application: Application) -> None:
        """Have the application answer."""
        try:
            await application(_scope(self._request), self._receive, self._send)
        except Exception as error:
            log.exception("application failed", path=self._request.path, error=repr(error))

    def whole(self) -> Response:
        """Return the answer; 500 when there is none.

        Raises NoAnswer when a part is missing, or when there is too much.
        """
        if not self._status:
            return Response(500)
        if not self._complete:
            raise NoAnswer("The answer broke off.")
        return Response(self._status, bytes(bounded(self._content)), self._headers)

    def end(self) -> None:
        """Let the reader of the chunks know that none will follow."""
        if self._chunks is not None:
            self._chunks.break_off()

    async def _receive(self) -> Message:
        body = self._request.body
        try:
            if not self._received and isinstance(body, bytes):
                self._received = True
                return {"type": "http.request", "body": body, "more_body": False}
            if not self._received and not isinstance(body, bytes):
                return {"type": "http.request", "body": await anext(body), "more_body": True}
        except StopAsyncIteration:
            self._received = True
            return {"type": "http.request", "body": b"", "more_body": False}
        except NoAnswer:
            self._received = True
            return {"type": "http.disconnect"}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        """Take the next part of the answer; drop it when the caller has left."""
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], _decode(message.get("headers", ()))
            if self._start is not None and self._chunks is not None:
                self._start(self._status, self._headers, self._chunks)
            return
        chunk: bytes = message.get("body", b"")
        if chunk and self._request.method != "HEAD":
            if self._chunks is not None:
                await self._chunks.put(bytes(chunk))
            elif len(self._content) <= limits.CLIENT_BODY_BYTES:
                self._content += chunk
        if not message.get("more_body", False):
            self._complete = True
            if self._chunks is not None:
                self._chunks.end()


def _decode(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    decoded: dict[str, str] = {}
    for raw_name, raw_value in headers:
        name, value = raw_name.decode("latin-1").lower(), raw_value.decode("latin-1")
        decoded[name] = f"{decoded[name]}, {value}" if name in decoded else value
    return decoded


def _split(target: str) -> tuple[str, str, str, str]:
    """Return scheme, place, path and query of a target."""
    where, _, query = target.partition("?")
    if where.startswith("/"):
        return "http", "", where, query
    scheme, _, rest = where.partition("://")
    place, slash, path = rest.partition("/")
    return scheme, place, slash + path, query


def _scope(request: Request) -> dict[str, Any]:
    scheme, place, path, query = _split(request.target)
    headers = [(name.encode(), value.encode()) for name, value in request.headers.items()]
    if place and "host" not in request.headers:
        headers.append((b"host", place.encode()))
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "headers": headers,
        "scheme": scheme,
        "path": unquote(path),
        "raw_path": path.encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "server": (place.partition(":")[0], None),
        "client": ("in-process", 0),
    }
