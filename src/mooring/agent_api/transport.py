"""How a request reaches an agent: as a call inside this process, or through a Unix socket."""

from __future__ import annotations

from typing import Any, Protocol

import httpx2
from msgspec.structs import replace

from mooring.errors import Unavailable
from mooring.limits import CLIENT_CONNECTIONS, CLIENT_IDLE_CONNECTIONS, CLIENT_IDLE_S
from mooring.neighbour import (
    Application,
    Deliver,
    Forward,
    Neighbour,
    NoAnswer,
    Request,
    Response,
    TooLate,
    deliver_once,
    gather,
)

App = Application
__all__ = ["App", "Deliver", "Forward", "InProcess", "Request", "Response", "UnixSocket", "Wire"]
__all__ += ["POOL", "deliver_once", "fetch"]
POOL = httpx2.Limits(
    max_connections=CLIENT_CONNECTIONS,
    max_keepalive_connections=CLIENT_IDLE_CONNECTIONS,
    # A request on a connection that the agent closes just then gets no answer.
    keepalive_expiry=CLIENT_IDLE_S,
)
"""The connections to one agent."""


class Wire(Protocol):
    """One way to one agent."""

    async def send(self, request: Request, timeout_s: float) -> Response:
        """Deliver and return the answer. Raises Unavailable when none comes in time.

        `timeout_s` is for the answer; of a body that is made while it is sent it bounds each wait.
        """
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class InProcess:
    """Calls an agent of this process."""

    def __init__(self, app: App, deliver: Deliver = deliver_once) -> None:
        self._agent, self._deliver = Neighbour(app), deliver

    async def send(self, request: Request, timeout_s: float) -> Response:
        asked = f"{request.method} {request.target}"
        try:
            # Of a body that streams each wait is bounded, as by socket: it may take hours in all.
            return await self._agent.call(replace(request, wait_s=timeout_s), self._deliver)
        except TooLate as error:
            raise Unavailable(
                f"The agent gave no answer within {timeout_s:g} s; it may still act. Ask again.",
                private=asked,
            ) from error
        except NoAnswer as error:
            raise Unavailable(
                "The agent stopped while it was asked. Ask again.", private=f"{asked}: {error}"
            ) from error

    async def close(self) -> None:
        return


class UnixSocket:
    """Calls an agent of this machine through its socket."""

    def __init__(self, path: str, deliver: Deliver = deliver_once) -> None:
        self._transport = httpx2.AsyncHTTPTransport(uds=path, trust_env=False, limits=POOL)
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
            return await fetch(self._client, request, httpx2.Timeout(timeout_s))
        except (httpx2.TransportError, NoAnswer) as error:
            raise Unavailable(
                "The agent gave no answer; it may have acted or not. Ask again when it runs.",
                private=f"{request.method} {request.target} at {self._path}: {error!r}",
            ) from error


async def fetch(
    client: httpx2.AsyncClient,
    request: Request,
    waits: httpx2.Timeout,
    extensions: dict[str, Any] | None = None,
) -> Response:
    """Return the answer that comes through a connection. `waits` bounds each wait.

    Raises httpx2.TransportError; NoAnswer when it is longer than `CLIENT_BODY_BYTES`.
    """
    async with client.stream(
        request.method,
        request.target,
        headers=request.headers,
        content=request.body,
        timeout=waits,
        extensions=extensions,
    ) as answer:
        return Response(
            answer.status_code, await gather(answer.aiter_bytes()), dict(answer.headers)
        )
