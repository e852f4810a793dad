"""A call to an application in this process: the same rules as by socket, without the socket.

The callee runs in a task of its own, with an empty context. The caller waits for it with a
deadline; when the deadline passes, or the caller is cancelled, the callee is abandoned and never
cancelled: it ends its work, and its answer goes nowhere. Bodies stream in both directions through
pipes of a few chunks.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextvars import Context
from typing import Any, TypeAlias
from urllib.parse import unquote

import structlog
from httpx2 import (
    AsyncBaseTransport,
    AsyncByteStream,
    ReadError,
    ReadTimeout,
    Request,
    Response,
    WriteTimeout,
)

from mooring import limits
from mooring.errors import Bug

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
Application: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]
Start: TypeAlias = tuple[int, list[tuple[bytes, bytes]]]

log = structlog.get_logger()


class Neighbour(AsyncBaseTransport):
    """Calls one application. Raises httpx2's timeouts, and ReadError for a broken answer."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._running: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: Request) -> Response:
        wire = _Wire(request)
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._serve(wire), context=Context())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await wire.upload()
            status, headers = await wire.answer()
        except BaseException:
            wire.abandon()
            raise
        return Response(status, headers=headers, stream=wire)

    async def aclose(self) -> None:
        """Wait for the callees that still run, but not for ever."""
        if self._running:
            await asyncio.wait(self._running, timeout=limits.NEIGHBOUR_CLOSE_S)

    def abandon(self) -> None:
        """End the callees where they stand, as the death of their process would."""
        for task in list(self._running):
            task.cancel()

    async def _serve(self, wire: _Wire) -> None:
        try:
            await self._application(wire.scope, wire.receive, wire.send)
        except Exception as error:
            log.exception("application failed", path=wire.scope["path"], error=repr(error))
        finally:
            wire.finish()


class _Pipe:
    """A few chunks on their way from one writer to one reader; either may leave before the end."""

    def __init__(self) -> None:
        self._chunks: deque[bytes] = deque()
        self._room, self._news = asyncio.Event(), asyncio.Event()
        self._ended = self._left = False

    @property
    def is_last(self) -> bool:
        """Whether nothing will come after what was taken."""
        return self._ended and not self._chunks

    async def put(self, chunk: bytes) -> bool:
        """Add a chunk once there is room; False when the reader has left."""
        while len(self._chunks) >= limits.NEIGHBOUR_CHUNKS and not self._left:
            self._room.clear()
            await self._room.wait()
        if self._left:
            await asyncio.sleep(0)  # so that a writer who never waits hears that nobody reads
            return False
        self._chunks.append(chunk)
        self._news.set()
        return True

    async def get(self) -> bytes | None:
        """Take the next chunk; None after the last."""
        while not self._chunks:
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()
        self._room.set()
        return self._chunks.popleft()

    def end(self) -> None:
        """Say that no chunk will follow."""
        self._ended = True
        self._news.set()

    def leave(self) -> None:
        """Say that no chunk will be read."""
        self._left = True
        self._chunks.clear()
        self._room.set()


class _Wire(AsyncByteStream):
    """What lies between one caller and one callee."""

    def __init__(self, request: Request) -> None:
        self.scope = _scope(request)
        self._request = request
        timeouts: dict[str, float | None] = request.extensions.get("timeout", {})
        self._read_s, self._write_s = timeouts.get("read"), timeouts.get("write")
        self._start: asyncio.Future[Start] = asyncio.get_running_loop().create_future()
        self._upload, self._download = _Pipe(), _Pipe()
        self._abandoned = asyncio.Event()
        self._received = self._complete = False

    async def upload(self) -> None:
        """Hand the request's body over, as far as the callee wants it."""
        stream = self._request.stream
        if not isinstance(stream, AsyncByteStream):
            raise Bug("The body of a request is not asynchronous.")
        async for chunk in stream:
            try:
                async with asyncio.timeout(self._write_s):
                    wanted = not chunk or await self._upload.put(chunk)
            except TimeoutError as error:
                message = "The service did not take the request's body in time."
                raise WriteTimeout(message, request=self._request) from error
            if not wanted:
                break
        self._upload.end()

    async def answer(self) -> Start:
        """Wait for status and headers."""
        done, _ = await asyncio.wait([self._start], timeout=self._read_s)
        if not done:
            raise ReadTimeout("The service did not answer in time.", request=self._request)
        return self._start.result()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            try:
                async with asyncio.timeout(self._read_s):
                    chunk = await self._download.get()
            except TimeoutError as error:
                message = "The rest of the answer did not come in time."
                raise ReadTimeout(message, request=self._request) from error
            if chunk is None:
                break
            yield chunk
        if not self._complete:
            raise ReadError("The answer broke off.", request=self._request)

    async def aclose(self) -> None:
        self.abandon()

    def abandon(self) -> None:
        """Leave, from the caller's side."""
        self._abandoned.set()
        self._upload.end()
        self._download.leave()

    async def receive(self) -> Message:
        """Give the callee the next part of the request, or the news that the caller has left."""
        if not self._received:
            chunk = await self._upload.get()
            if not self._abandoned.is_set():
                self._received = self._upload.is_last
                more = not self._received
                return {"type": "http.request", "body": chunk or b"", "more_body": more}
        await self._abandoned.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take the next part of the callee's answer; drop it when the caller has left."""
        if message["type"] == "http.response.start":
            self._start.set_result((message["status"], list(message.get("headers", []))))
            return
        chunk: bytes = message.get("body", b"")
        if chunk and self._request.method != "HEAD":
            await self._download.put(bytes(chunk))
        if not message.get("more_body", False):
            self._complete = True
            self._download.end()
            self._upload.leave()

    def finish(self) -> None:
        """End the answer: the callee has returned, or failed."""
        if not self._start.done():
            self._start.set_result((500, [(b"content-type", b"text/plain")]))
            self._complete = True
        self._download.end()
        self._upload.leave()


def _scope(request: Request) -> dict[str, Any]:
    raw_path = request.url.raw_path.partition(b"?")[0]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "scheme": request.url.scheme,
        "path": unquote(raw_path.decode("ascii")),
        "raw_path": raw_path,
        "query_string": request.url.query,
        "root_path": "",
        "server": (request.url.host, request.url.port),
        "client": ("in-process", 0),
    }
