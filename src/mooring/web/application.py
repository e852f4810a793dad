"""From a request to a handler and back: the same for every service and for the agents of hosts.

The order: request id, version documents, route (404, 405), token (401), project in the URL,
microversion (400, 406), registration in that version (404), policy (403), body (400, 413, 415),
handler. Whatever is raised on the way becomes a fault in the service's own shape.
"""

from __future__ import annotations

import re
from time import perf_counter
from traceback import format_exception
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import unquote, urlsplit

import structlog
from starlette.requests import ClientDisconnect, Request

from mooring.errors import Bug, Invalid, MooringError, NotFound
from mooring.web import body, microversion
from mooring.web.api import Call, Reply, Route
from mooring.web.exchange import Exchange
from mooring.web.identity import NOBODY
from mooring.web.request_times import RequestTimes
from mooring.web.routes import choose

if TYPE_CHECKING:
    from collections.abc import Sequence

    import msgspec
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from mooring.http_refusals import Refusals
    from mooring.web.audit import AuditLog
    from mooring.web.face import Face
    from mooring.web.gate import Gate
    from mooring.web.routes import Match, Routes
    from mooring.who import Who

log = structlog.get_logger()

NOT_SERVED = "request not served now"
_PROJECT = re.compile(r"[0-9a-f-]{1,64}")
_UNEXPECTED = "An unexpected error occurred. The operator's log explains it under the request's id."


S = TypeVar("S")


class Application(Generic[S]):
    """The ASGI application of a service or an agent; `mooring.web.app` builds a service's.

    `public_url` is the root as clients see it, without a version segment and without a last slash;
    its path is stripped from incoming paths. `times` has every request counted, and `audit` is told
    of each. `strangers` tell the log of those who were not served before it was known who they are;
    without them, it is told of all.
    """

    def __init__(
        self,
        service: S,
        routes: Routes,
        face: Face,
        *,
        gate: Gate,
        public_url: str = "",
        identity_url: str = "",
        times: RequestTimes | None = None,
        audit: AuditLog | None = None,
        strangers: Refusals | None = None,
    ) -> None:
        self.service, self.routes, self.face, self.gate = service, routes, face, gate
        self.root_url = public_url.rstrip("/")
        self.prefix = urlsplit(self.root_url).path
        self.versioned_url = self.root_url + (f"/{face.segment}" if face.segment else "")
        self.identity_url, self.times = identity_url, times or RequestTimes()
        self.audit, self.strangers = audit, strangers
        self.documents = face.documents(face, self.root_url)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        begun = perf_counter()
        exchange = Exchange(self.face, Request(scope, receive), self.identity_url)
        reply: Reply | None = None
        refusal: MooringError | None = None
        try:
            reply = await self._answer(exchange)
            response = exchange.respond(reply)
            exchange.told = reply.told
        except MooringError as error:
            refusal = error
            response = self._refuse(exchange, error)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001  (a 500 with the request's id, never a traceback)
            bug = Bug(_UNEXPECTED, private=f"{type(error).__name__}: {error}")
            response = self._refuse(exchange, bug, cause=error)
        if self.audit is not None:
            self.audit.tell(exchange, response.status_code, refusal)
        try:
            await response(scope, receive, send)
        except ClientDisconnect:
            log.info("client left", service=self.face.service, request_id=exchange.request_id)
        finally:
            await _close(reply)
            seconds = perf_counter() - begun
            self.times.note(self.face.service, exchange.route, response.status_code, seconds)

    def _refuse(
        self, exchange: Exchange, error: MooringError, *, cause: Exception | None = None
    ) -> Response:
        response = exchange.refuse(error)
        # 501 is a plain answer: what was asked is not built.
        if response.status_code >= 500 and response.status_code != 501:
            self._log(exchange, response.status_code, error, cause or error)
        return response

    def _log(self, exchange: Exchange, status: int, error: MooringError, cause: Exception) -> None:
        """Write down what was not served: where in the code it failed only if it is our mistake."""
        shown: dict[str, Any] = {
            "service": self.face.service,
            "request_id": exchange.request_id,
            "global_request_id": exchange.global_request_id,
            "method": exchange.request.method,
            "path": exchange.path_told,
            "status": status,
            "error": str(error),
        }
        if isinstance(error, Bug):
            # Formatted here, because a logger that shows local variables would show tokens.
            log.error("request failed", traceback="".join(format_exception(cause)), **shown)
        elif exchange.who is NOBODY and self.strangers is not None:
            self.strangers.tell(**shown)
        else:
            log.warning(NOT_SERVED, **shown)

    async def _answer(self, exchange: Exchange) -> Reply:
        request = exchange.request
        body.check_url(request.scope)
        path = self._path(request)
        short = path.rstrip("/")
        public = self._public(exchange, short) if request.method in ("GET", "HEAD") else None
        if public is not None:
            return public
        project_id, parts = self._parts(short if self.face.ignores_last_slash else path)
        match = self.routes.find(parts)
        candidates = match.routes(request.method) if match else []
        exchange.route = candidates[0] if candidates and not candidates[0].action else None
        who = NOBODY
        if not (candidates and candidates[0].open):
            who = await self.gate.let_in(request.headers, exchange.request_id)
            exchange.who = who
        if match is None:
            self.face.unbuilt.refuse_path(parts)
            raise NotFound("The resource could not be found.")
        if project_id and project_id != who.project_id:
            raise Invalid(
                f"Malformed request URL: URL's project_id '{project_id}' doesn't match "
                f"Context's project_id '{who.project_id}'."
            )
        exchange.version = microversion.negotiate(self.face, request.headers)
        if not candidates:
            self.face.unbuilt.refuse_method(request.method, parts)
            exchange.methods = match.methods
            raise NotFound(
                f"The method {request.method} is not allowed for this resource.", status=405
            )
        return await self._handle(exchange, match, candidates, who)

    async def _handle(
        self, exchange: Exchange, match: Match, candidates: Sequence[Route], who: Who
    ) -> Reply:
        request, version = exchange.request, exchange.version or (0, 0)
        value: bytes | msgspec.Raw = b""
        if candidates[0].action:
            body.check_media(candidates[0], request)
            name, value = body.decode_action(await body.read(request, self.face.body_bytes))
            resource = candidates[0].path.split("/")[1]
            candidates = [route for route in candidates if route.action == name]
            if not candidates:
                self.face.unbuilt.refuse_action(name, resource)
                raise Invalid(f"There is no such action: {name}.")
        route = exchange.route = choose(candidates, version)
        call = Call(
            service=self.service,
            who=who,
            path=match.values(route),
            request=request,
            request_id=exchange.request_id,
            version=version,
            operation=self.gate.operation(request.headers, who),
            allows=self.gate.asked_by(who),
            root_url=self.root_url,
            versioned_url=self.versioned_url,
        )
        if route.policy is not None:
            call.require(route.policy)
        if route.body is not None and not route.action:
            body.check_media(route, request)
            value = await body.read(request, self.face.body_bytes)
        return await _run(route, call, value)

    def _path(self, request: Request) -> str:
        raw: bytes | None = request.scope.get("raw_path")
        path = raw.decode("latin-1") if raw else request.scope["path"]
        return path.removeprefix(self.prefix)

    def _public(self, exchange: Exchange, path: str) -> Reply | None:
        project = path.rpartition("/")[2]
        if self.face.project_in_path and _PROJECT.fullmatch(project):
            path = path.removesuffix(f"/{project}")
        document = self.documents.get(path)
        if document is not None:
            if document.has_version:
                exchange.version = microversion.negotiate(self.face, exchange.request.headers)
            location = {"location": f"{self.versioned_url}/"} if document.status == 300 else {}
            return Reply(document.status, document.body, location)
        if path == "/healthcheck":
            return Reply(200, b"OK", {"content-type": "text/plain"})
        return None

    def _parts(self, path: str) -> tuple[str, list[str]]:
        segment = f"/{self.face.segment}" if self.face.segment else ""
        if not f"{path}/".startswith(f"{segment}/"):
            return "", [""]
        parts = [unquote(part) for part in path.removeprefix(segment).split("/")[1:]]
        if self.face.project_in_path and parts and _PROJECT.fullmatch(parts[0]):
            return parts[0], parts[1:]
        return "", parts


async def _run(route: Route, call: Call[Any], content: bytes | msgspec.Raw) -> Reply:
    if route.body is None:
        return await (route.handler(call, None) if route.takes_body else route.handler(call))
    place = f"$.{route.action}" if route.action else "$"
    return await route.handler(call, body.decode(route, content, call.version, place=place))


async def _close(reply: Reply | None) -> None:
    close = getattr(reply.stream, "aclose", None) if reply is not None else None
    if close is not None:
        await close()
