"""Where hosts knock: HTTPS with the control plane's certificate, two paths, no token of identity.

`GET /authority` tells everybody whom to believe; `POST /join` lets in who has a join token. What
is answered is small, and so is what may be sent.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from mooring import typed
from mooring.agent_api.joining import JoinRequest
from mooring.agent_api.wire import STATUS, body_of
from mooring.errors import Bug, Invalid, MooringError, NotFound, Unavailable
from mooring.limits import JOIN_BODY_BYTES, JOIN_CALLERS, JOIN_WAIT_S

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from mooring.fleet.fleet import Fleet
    from mooring.web.audit import AuditLog

log = structlog.get_logger()


def build(fleet: Fleet, audit: AuditLog | None = None) -> ASGIApp:
    """Return the application. `audit` is told who was let in, and who was not."""
    places = asyncio.Semaphore(JOIN_CALLERS)

    async def answer(request: Request) -> Response:
        asked = request.method, request.url.path
        if asked == ("GET", "/authority"):
            return Response(fleet.authority, media_type="application/x-pem-file")
        if asked != ("POST", "/join"):
            raise NotFound("Hosts join here, and nothing else is done.")
        if places.locked():
            raise Unavailable("Many hosts join now. Start the agent again.")
        async with places:
            joined = await fleet.join(await _read(request))
        if audit is not None:
            audit.note("host", request, 200, host=joined.name)
        return Response(msgspec.json.encode(joined), media_type="application/json")

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            response = await answer(request)
        except MooringError as error:
            caller = request.client.host if request.client else ""
            log.warning("a host was not let in", caller=caller, reason=str(error))
            if audit is not None:
                audit.note("host", request, STATUS[error.kind], error=error)
            # What is private stays in the log.
            told = Bug("The control plane failed.") if isinstance(error, Bug) else error
            plain = type(told)(told.public)
            response = Response(body_of(plain), STATUS[told.kind], media_type="application/json")
        await response(scope, receive, send)

    return application


async def _read(request: Request) -> JoinRequest:
    body = b""
    try:
        async with asyncio.timeout(JOIN_WAIT_S):
            async for chunk in request.stream():
                body += chunk
                if len(body) > JOIN_BODY_BYTES:
                    raise Invalid("That is too long for a request to join.")
        return typed.decode(body, JoinRequest)
    except TimeoutError as error:
        raise Unavailable("The request to join did not come to its end.") from error
    except (ClientDisconnect, msgspec.MsgspecError) as error:
        raise Invalid("That is no request to join.", private=str(error)) from error
