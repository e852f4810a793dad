"""How a request reaches an agent: as a call inside this process, or through a Unix socket.

The in-process call runs in a task of its own with an empty context. The caller waits with a
deadline; a deadline that passes abandons the call and never cancels it, as a lost answer would.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from contextvars import Context
from typing import Any, Protocol
from urllib.parse import unquote

import httpx2
from msgspec import Struct

from mooring.errors import Unavailable

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Request(Struct, frozen=True):
    """One request to an agent: path with query, lower-case header names, a body or stream."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes | AsyncIterator[bytes] = b""


class Response(Struct, frozen=True):
    """What came back."""

    status: int
    body: bytes = b""
    headers: dict[str, str] = {}


class Wire(Protocol):
    """One way to one agent."""

    async def send(self, request: Request, timeout_s: float) -> Response:
        """Deliver and return the answer. Raises Unavailable when none comes in time."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


Forward = Callable[[Request], Awaitable[Response]]
Deliver = Callable[[Request, Forward], Awaitable[Response]]
"""Stands between client and agent, to lose, repeat or hold back what passes."""


async def deliver_once(request: Request, forward: Forward) -> Response:
    """Deliver a request, once and now: what a network does when nothing goes wrong."""
    return await forward(request)


class InProcess:
    """Calls an ASGI application of this process."""

    def __init__(self, app: App, deliver: Deliver = deliver_once) -> None:
        self._app, self._deliver = app, deliver
        self._running: set[asyncio.Task[Response]] = set()

    async def send(self, request: Request, timeout_s: float) -> Response:
        work = self._work(request)
        task = asyncio.get_running_loop().create_task(work, context=Context())
        self._running.add(task)
        task.add_done_callback(self._forget)
        done, _ = await asyncio.wait({task}, timeout=timeout_s)
        if not done:
            raise Unavailable(
                f"The agent gave no answer within {timeout_s:g} s; it may still act. Ask again.",
                private=f"{request.method} {request.target}",
            )
        if task.cancelled():
            raise Unavailable("The agent stopped while it was asked. Ask again.")
        return task.result()

    async def close(self) -> None:
        return

    def _forget(self, task: asyncio.Task[Response]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            # Nobody may be waiting any more: looking at the failure keeps the loop from warning.
            task.exception()

    async def _work(self, request: Request) -> Response:
        return await self._deliver(request, lambda again: call_app(self._app, again))


async def call_app(app: App, request: Request) -> Response:
    """Make one ASGI call; an exception of the application is a 500, as it would be by socket."""
    path, _, query = request.target.partition("?")
    scope: Scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(k.encode(), v.encode()) for k, v in request.headers.items()],
        "client": None,
        "server": ("agent", None),
    }
    answer, body = _Answer(), _Body(request.body)
    try:
        await app(scope, body.receive, answer.send)
    except Exception as error:  # noqa: BLE001  (by socket, whatever it is would be a 500)
        if not answer.status:
            return Response(500, f"{type(error).__name__}: {error}".encode())
    if body.failure is not None:
        raise body.failure
    return Response(answer.status or 500, bytes(answer.body), answer.headers)


class _Answer:
    def __init__(self) -> None:
        self.status, self.body = 0, bytearray()
        self.headers: dict[str, str] = {}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode().lower(): v.decode() for k, v in message.get("headers", [])}
        elif message["type"] == "http.response.body":
            self.body += message.get("body", b"")


class _Body:
    """Hands a body on; its source's failure reaches the application as a sender that went away."""

    def __init__(self, body: bytes | AsyncIterator[bytes]) -> None:
        self._chunks = _once(body) if isinstance(body, bytes) else body
        self._ended = False
        self.failure: Exception | None = None

    async def receive(self) -> MutableMapping[str, Any]:
        if self._ended:
            return {"type": "http.disconnect"}
        try:
            return {"type": "http.request", "body": await anext(self._chunks), "more_body": True}
        except StopAsyncIteration:
            self._ended = True
            return {"type": "http.request", "body": b"", "more_body": False}
        except Exception as error:  # noqa: BLE001  (the sender's own, raised again in `call_app`)
            self._ended, self.failure = True, error
            return {"type": "http.disconnect"}


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


class UnixSocket:
    """Calls an agent of this machine through its socket."""

    def __init__(self, path: str, deliver: Deliver = deliver_once) -> None:
        self._transport = httpx2.AsyncHTTPTransport(uds=path, trust_env=False)
        self._client = httpx2.AsyncClient(
            transport=self._transport, base_url="http://agent", trust_env=False
        )
        self._path, self._deliver = path, deliver

    async def send(self, request: Request, timeout_s: float) -> Response:
        async def forward(again: Request) -> Response:
            return await self._forward(again, timeout_s)

        return await self._deliver(request, forward)

    async def close(self) -> None:
        await self._client.aclose()

    async def _forward(self, request: Request, timeout_s: float) -> Response:
        try:
            answer = await self._client.request(
                request.method,
                request.target,
                headers=request.headers,
                content=request.body,
                timeout=timeout_s,
            )
        except httpx2.TransportError as error:
            raise Unavailable(
                "The agent gave no answer; it may have acted or not. Ask again when it runs.",
                private=f"{request.method} {request.target} at {self._path}: {error!r}",
            ) from error
        return Response(answer.status_code, answer.content, dict(answer.headers))
