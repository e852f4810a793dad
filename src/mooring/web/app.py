"""One service's ASGI application, behind tokens and policy; and several of them as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from mooring.errors import Bug, Forbidden
from mooring.http_refusals import Refusals
from mooring.web.api import Api, Call, Reply
from mooring.web.application import NOT_SERVED, Application
from mooring.web.gate import TokenGate
from mooring.web.identity import is_service
from mooring.web.routes import Routes

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette.types import ASGIApp, Receive, Scope, Send

    from mooring.store.base import Store
    from mooring.web.audit import AuditLog
    from mooring.web.face import Face
    from mooring.web.identity import TokenValidator
    from mooring.web.policy import Policy
    from mooring.web.request_times import RequestTimes


class Served(Protocol):
    """What every service object has."""

    @property
    def store(self) -> Store:
        """The service's own database."""
        ...


S = TypeVar("S", bound=Served)
End: TypeAlias = "Callable[[Sequence[str]], Awaitable[None]]"


def build_app(
    service: S,
    apis: Sequence[Api[S]],
    *,
    face: Face,
    validator: TokenValidator,
    policy: Policy,
    public_url: str,
    identity_url: str = "",
    end: End | None = None,
    times: RequestTimes | None = None,
    audit: AuditLog | None = None,
) -> ASGIApp:
    """Return the application of one service.

    `public_url` is the service's root as clients see it, without a version segment and without a
    last slash (`http://127.0.0.1:8700/compute`); its path is stripped from incoming paths, so the
    application may be mounted there or called with whole URLs. `identity_url` is what a 401 names.
    `end` gets the ids of what a buried operation made, and is to return when nothing works for it
    any more: then burying tells its caller that nobody will touch the matter again. `times` has
    every request counted, and `audit` is told of each.
    Raises Bug when two routes claim the same request, or one names an unregistered policy.
    """
    routes = [route for api in [*apis, _operations_api(service, end)] for route in api.routes]
    for route in routes:
        if route.policy is not None and route.policy not in policy:
            raise Bug(f"{route.method} {route.path}: the rule {route.policy} is not registered.")
    return Application(
        service,
        Routes(routes),
        face,
        gate=TokenGate(validator, policy, is_for_projects=face.is_for_projects),
        public_url=public_url,
        identity_url=identity_url,
        times=times,
        audit=audit,
        # Whoever has no token could fill the log.
        strangers=Refusals(NOT_SERVED, "more requests were not served"),
    )


def mount(
    apps: Mapping[str, ASGIApp],
    otherwise: ASGIApp,
    sockets: Mapping[str, ASGIApp] | None = None,
) -> ASGIApp:
    """Return one application that hands a path to the service whose prefix (`/compute`) it has.

    Of `sockets` each serves one path by websocket, which nothing else is asked for.
    """

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await (sockets or {}).get(scope["path"], _no_socket)(scope, receive, send)
            return
        prefix = "/" + scope.get("path", "").lstrip("/").partition("/")[0]
        await apps.get(prefix, otherwise)(scope, receive, send)

    return application


async def _no_socket(scope: Scope, receive: Receive, send: Send) -> None:
    """Refuse a websocket where there is none."""
    await send({"type": "websocket.close", "code": 1000})


def _operations_api(service: S, end: End | None) -> Api[S]:
    api = Api[S]()

    @api.delete("/mooring/operations/{operation_key}", policy=None)
    async def bury(call: Call[S]) -> Reply:
        if not is_service(call.who):
            raise Forbidden("Only a service may end an operation.")
        from mooring.fence import table

        key = call.path["operation_key"]
        made = await call.service.store.write(lambda tx: table.bury(tx, key))
        if end is not None:
            await end(made)
        return Reply(200, {"made": made})

    return api
