"""The door of serial consoles: a websocket whose messages are the bytes of a guest's port.

The token in the query is what lets somebody in: a browser can send no other header than a cookie,
by which Tempest and the older noVNC bring it. So a page of another place is turned away.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.websockets import WebSocket

from mooring import http_limits
from mooring.compute.consoles import consoles
from mooring.compute.consoles.api.relay import Relay
from mooring.errors import Conflict, Forbidden, MooringError, NoCapacity, NotFound

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from mooring.compute.service import Compute
    from mooring.compute.tables import ConsoleToken
    from mooring.web.audit import AuditLog

PATH = "/websockify"
"""What the clients of OpenStack's consoles ask for."""
_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")
_BINARY = "binary"
_STATUS: dict[type[MooringError], int] = {
    Forbidden: 403,
    NotFound: 403,
    Conflict: 409,
    NoCapacity: 503,
}
"""A token that is no good is answered as with OpenStack's proxy."""


def build(compute: Compute, public_url: str, audit: AuditLog) -> ASGIApp:
    """Return the application that serves consoles by websocket."""
    door = _Door(compute, urlsplit(public_url).netloc, audit)
    return door.serve


class _Door:
    def __init__(self, compute: Compute, place: str, audit: AuditLog) -> None:
        self._compute, self._place, self._audit = compute, place, audit
        self._open = 0

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let somebody in who has a token, and talk until one of both sides ends."""
        socket = WebSocket(scope, receive, send)
        await socket.receive()
        try:
            granted = await self._let_in(socket)
        except MooringError as error:
            await self._refuse(socket, error)
            return
        self._open += 1
        try:
            await self._talk(socket, granted)
        finally:
            self._open -= 1

    async def _talk(self, socket: WebSocket, granted: ConsoleToken) -> None:
        try:
            agent = self._compute.agents[granted.host]
            session_id = await agent.open_serial(granted.server_id)
        except MooringError as error:
            await self._refuse(socket, error)
            return
        self._audit.note(
            "console",
            socket,
            101,
            server_id=granted.server_id,
            user_id=granted.user_id,
            project_id=granted.project_id,
        )
        offered = socket.scope.get("subprotocols", ())
        relay = Relay(agent, granted.server_id, session_id, socket)
        await relay.run(_BINARY if _BINARY in offered else None)

    async def _let_in(self, socket: WebSocket) -> ConsoleToken:
        """Raise Forbidden, NotFound, NoCapacity unless somebody may come in."""
        origin = socket.headers.get("origin")
        own = {self._place, socket.headers.get("host", "")}
        if origin is not None and _place_of(origin) not in own:
            raise Forbidden(
                "A page of another place than this cloud's may not open its consoles.",
                private=f"origin {origin[:200]}",
            )
        shown = socket.query_params.get("token") or socket.cookies.get("token", "")
        if not _TOKEN.fullmatch(shown):
            raise NotFound("This is no token of a console. Ask for a new console URL.")
        granted = await consoles.find(self._compute, shown)
        if self._open >= http_limits.CONSOLES:
            raise NoCapacity("Too many consoles are open. Close one, then try again.")
        return granted

    async def _refuse(self, socket: WebSocket, error: MooringError) -> None:
        status = _STATUS.get(type(error), 503)
        self._audit.note("console", socket, status, error=error)
        headers = [(b"content-type", b"text/plain; charset=utf-8")]
        kind = "websocket.http.response"
        await socket.send({"type": f"{kind}.start", "status": status, "headers": headers})
        await socket.send({"type": f"{kind}.body", "body": error.public.encode("utf-8")})


def _place_of(origin: str) -> str | None:
    """Return the host and port of a page's origin; None for nonsense and for `null`."""
    try:
        return urlsplit(origin).netloc or None
    except ValueError:
        return None
