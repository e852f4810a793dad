"""How a service says what it answers: routes with their policy and microversions in one place.

Paths are relative to the service's versioned root (`/compute/v2.1`, `/volume/v3`, `/image/v2`,
`/identity/v3`, `/placement`). The optional project id of compute and volume URLs never appears in
a route: `mooring.web.app` takes it out first.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Required,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from msgspec import Struct
from msgspec.structs import replace

from mooring.errors import Forbidden

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams
    from starlette.requests import Request

    from mooring.fence.operation import Operation
    from mooring.who import Who

S = TypeVar("S")
B = TypeVar("B")
Version: TypeAlias = tuple[int, int]
Target: TypeAlias = Mapping[str, Any]
JSON_MEDIA = ("application/json",)


class Reply(Struct):
    """What a handler answers. `body` is encoded as JSON; bytes go out as they are, None is no body.

    `stream` takes the place of the body: chunks, sent as they come. A Content-Type in `headers`
    wins over the default (JSON, or application/octet-stream for bytes and streams).
    """

    status: int
    body: Any = None
    headers: dict[str, str] = {}
    stream: AsyncIterator[bytes] | None = None
    told: dict[str, str] = {}
    """What of it is for the audit log, beside what every line of that has."""


class Call(Generic[S]):
    """One request on its way to a handler: who asks, for what, in which version."""

    __slots__ = (
        "_allows",
        "_root_url",
        "_versioned_url",
        "operation",
        "path",
        "request",
        "request_id",
        "service",
        "version",
        "who",
    )

    def __init__(
        self,
        *,
        service: S,
        who: Who,
        path: dict[str, str],
        request: Request,
        request_id: str,
        version: Version,
        operation: Operation | None,
        allows: Callable[[str, Target], bool],
        root_url: str,
        versioned_url: str,
    ) -> None:
        self.service = service
        self.who = who
        self.path = path
        """The named parts of the path, decoded."""
        self.request = request
        self.request_id = request_id
        self.version = version
        """The microversion that rules this request; (0, 0) where the service has none."""
        self.operation = operation
        """The caller's operation; None unless the caller is a service."""
        self._allows = allows
        self._root_url = root_url
        self._versioned_url = versioned_url

    @property
    def query(self) -> QueryParams:
        """The query string, decoded."""
        return self.request.query_params

    def url(self, path: str) -> str:
        """Return an absolute public URL; `path` is relative to the versioned root, like a route."""
        return self._versioned_url + path

    def bookmark(self, path: str) -> str:
        """Return the public URL without a version that `bookmark` links carry."""
        return self._root_url + path

    def allowed(self, rule: str, target: Target | None = None) -> bool:
        """Tell whether the caller may do `rule` to `target`; without one, to its own project."""
        if target is None:
            target = {"project_id": self.who.project_id, "user_id": self.who.user_id}
        return self._allows(rule, target)

    def require(self, rule: str, target: Target | None = None) -> None:
        """Raise Forbidden unless `allowed`."""
        if not self.allowed(rule, target):
            raise Forbidden(f"Policy doesn't allow {rule} to be performed.")


Handler: TypeAlias = Callable[[Call[S]], Awaitable[Reply]]
BodyHandler: TypeAlias = Callable[[Call[S], B], Awaitable[Reply]]


class Options(TypedDict, total=False):
    """What a route says beside its path and body."""

    policy: Required[str | None]
    """The rule, asked for the caller's own project before the handler runs; None when the handler
    itself calls `call.require` with a better target."""
    since: Version | None
    until: Version | None
    """The microversions in which the registration exists, both inclusive. One method and path may
    be registered several times with versions that do not overlap."""
    key: str
    """The member of the body that holds what the body type describes; empty when all of it does."""
    only_key: bool
    """Whether other members beside `key` are refused."""
    closed_since: Version
    """From here on members that the body type does not have are refused, if not before."""
    media: tuple[str, ...]
    """The content types that a body may have; others are answered 415."""
    open: bool
    """No token is needed, and `call.who` is nobody."""


class Route(Struct, frozen=True, kw_only=True):
    """One registration. `action` is the key of the body for action routes, else empty."""

    method: str
    path: str
    handler: Callable[..., Awaitable[Reply]]
    policy: str | None
    body: Any = None
    takes_body: bool = False
    action: str = ""
    since: Version | None = None
    until: Version | None = None
    key: str = ""
    only_key: bool = False
    closed_since: Version | None = None
    media: tuple[str, ...] = JSON_MEDIA
    open: bool = False

    def serves(self, version: Version) -> bool:
        """Tell whether this registration exists in `version`."""
        return (self.since is None or version >= self.since) and (
            self.until is None or version <= self.until
        )


class Verb(Generic[S]):
    """The decorator of a method whose requests have no body."""

    def __init__(self, routes: list[Route], method: str) -> None:
        self._routes, self._method = routes, method

    def __call__(self, path: str, **options: Unpack[Options]) -> Callable[[Handler[S]], Handler[S]]:
        """Register a handler `(call)`."""

        def register(handler: Handler[S]) -> Handler[S]:
            self._routes.append(Route(method=self._method, path=path, handler=handler, **options))
            return handler

        return register


class BodyVerb(Generic[S]):
    """The decorator of a method whose requests may have a body.

    The body type is decoded strictly (400 when the body does not fit); `Any` takes any JSON; None
    leaves the body unread, so that a handler may stream `call.request.stream()`. With None the
    handler takes `(call)`, or `(call, body)` where body is None.
    """

    def __init__(self, routes: list[Route], method: str) -> None:
        self._routes, self._method = routes, method

    @overload
    def __call__(
        self, path: str, body: None = None, **options: Unpack[Options]
    ) -> Callable[[Callable[..., Awaitable[Reply]]], Callable[..., Awaitable[Reply]]]: ...
    @overload
    def __call__(
        self, path: str, body: type[B], **options: Unpack[Options]
    ) -> Callable[[BodyHandler[S, B]], BodyHandler[S, B]]: ...
    @overload
    def __call__(
        self, path: str, body: Any, **options: Unpack[Options]
    ) -> Callable[[BodyHandler[S, Any]], BodyHandler[S, Any]]: ...
    def __call__(self, path: str, body: Any = None, **options: Any) -> Any:
        """Register a handler `(call, body)`."""
        return _register(
            self._routes,
            Route(method=self._method, path=path, body=body, handler=_nothing, **options),
        )


class ActionVerb(Generic[S]):
    """The decorator of `POST .../action` with a body of one key, the action's name.

    The body type describes the value under that key; None ignores it. A body without exactly one
    key, or with an unknown one, is 400; an action that the caller's microversion lacks is 404.
    """

    def __init__(self, routes: list[Route]) -> None:
        self._routes = routes

    @overload
    def __call__(
        self, path: str, name: str, body: None = None, **options: Unpack[Options]
    ) -> Callable[[Callable[..., Awaitable[Reply]]], Callable[..., Awaitable[Reply]]]: ...
    @overload
    def __call__(
        self, path: str, name: str, body: type[B], **options: Unpack[Options]
    ) -> Callable[[BodyHandler[S, B]], BodyHandler[S, B]]: ...
    @overload
    def __call__(
        self, path: str, name: str, body: Any, **options: Unpack[Options]
    ) -> Callable[[BodyHandler[S, Any]], BodyHandler[S, Any]]: ...
    def __call__(self, path: str, name: str, body: Any = None, **options: Any) -> Any:
        """Register a handler `(call, value)`."""
        return _register(
            self._routes,
            Route(method="POST", path=path, body=body, action=name, handler=_nothing, **options),
        )


class Api(Generic[S]):
    """The routes of one file of a service's `api/`: `api = Api[Compute]()`, then decorators."""

    def __init__(self) -> None:
        self.routes: list[Route] = []
        self.get = Verb[S](self.routes, "GET")
        """A GET; HEAD is answered by the same handler, without the body."""
        self.head = Verb[S](self.routes, "HEAD")
        """A HEAD of its own, where GET does something else or does not exist."""
        self.delete = Verb[S](self.routes, "DELETE")
        self.post = BodyVerb[S](self.routes, "POST")
        self.put = BodyVerb[S](self.routes, "PUT")
        self.patch = BodyVerb[S](self.routes, "PATCH")
        self.action = ActionVerb[S](self.routes)


async def _nothing() -> Reply:
    return Reply(204)


def _register(routes: list[Route], route: Route) -> Callable[[Any], Any]:
    def register(handler: Callable[..., Awaitable[Reply]]) -> Callable[..., Awaitable[Reply]]:
        takes_body = len(inspect.signature(handler).parameters) > 1
        routes.append(replace(route, handler=handler, takes_body=takes_body))
        return handler

    return register
