"""Calls to one service: who asks, in which version, under which operation, and what went wrong.

A session repeats nothing by itself, with one exception: a request answered 401 was not begun, so
it is sent once more with a new token of the service user.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from mooring import bulkhead, typed
from mooring.clients.refusals import refusal
from mooring.errors import NotFound, Unauthenticated, Unavailable
from mooring.fence import operation as operations
from mooring.neighbour import NoAnswer, Request, Response
from mooring.who import Who

if TYPE_CHECKING:
    from mooring.clients.catalog import Catalog
    from mooring.clients.transport import Network
    from mooring.fence.operation import Operation

T = TypeVar("T")
Caller: TypeAlias = Who | None
"""A user, whose token goes with our service token beside it; None is the service user itself."""

_OPERATION = operations.HEADER.lower()
_BODILESS = ("GET", "HEAD", "DELETE")
CALL_S = 60.0
"""How long a call may take, unless its caller says otherwise."""


class Credentials(Protocol):
    """Our own user at the identity service."""

    async def token(self, *, instead_of: str = "") -> str:
        """Return a token with some life left, and not the refused one. Raises Unavailable."""
        ...

    async def user_id(self) -> str:
        """Return the id of the user that it is. Raises Unavailable."""
        ...


class Answer(Struct, frozen=True):
    """What a service answered, below 300. Header names are in lower case."""

    status: int
    headers: dict[str, str]
    content: bytes

    def json(self) -> Any:
        """Return the body, decoded. Raises Unavailable when it is not JSON."""
        try:
            return msgspec.json.decode(self.content)
        except msgspec.DecodeError as error:
            raise Unavailable("A service answered what is not JSON.", private=str(error)) from error


class Session:
    """Calls to one service. `service` is our word for it: `volume`, `image`, `compute` ...

    `is_service` says that the credentials are a service user's, who vouches for callers; an
    operator's tool calls for itself alone.
    """

    def __init__(
        self,
        network: Network,
        *,
        service: str,
        catalog: Catalog,
        credentials: Credentials,
        is_service: bool = True,
    ) -> None:
        self.service = service
        self._network, self._catalog, self._credentials = network, catalog, credentials
        self._is_service = is_service

    async def user_id(self) -> str:
        """Return the id of the user whose credentials it has. Raises Unavailable."""
        return await self._credentials.user_id()

    async def ids_of(self, service: str) -> list[str]:
        """Return by which ids identity knows a service, by our word for it. Raises Unavailable."""
        return await self._catalog.ids(service)

    async def url(self, path: str) -> str:
        """Return where a path of the service is, for those who ask for it themselves."""
        return await self._catalog.url(self.service) + path

    async def read(self, method: str, path: str, key: str, form: type[T], **how: Any) -> T:
        """Send one request, as `request`, and return what its answer has under a key.

        Raises Unavailable, too, when that has not this form.
        """
        answer = await self.request(method, path, **how)
        try:
            body: Mapping[str, Any] = answer.json()
            return typed.convert(body[key], form)
        except (KeyError, TypeError, msgspec.ValidationError) as error:
            raise Unavailable(
                f"The {self.service} service sent an answer that makes no sense; ask its operator.",
                private=f"{method} {path.partition('?')[0]}: {error}",
            ) from error

    async def request(
        self,
        method: str,
        path: str,
        *,
        caller: Caller,
        json: Any = None,
        version: str | None = None,
        operation: Operation | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = CALL_S,
    ) -> Answer:
        """Send one request and read its answer; `path` is relative to the versioned root.

        Raises one of the nine kinds, as `mooring.clients.refusals` tells; Unavailable too when no
        answer came within `timeout_s`: it may have happened, or may still.
        """
        sent = {**_lower(headers), **_version_headers(self.service, version)}
        body = b"" if json is None else msgspec.json.encode(json)
        if body:
            sent.setdefault("content-type", "application/json")
        if body or method not in _BODILESS:
            sent["content-length"] = str(len(body))
        if operation is not None:
            sent[_OPERATION] = str(operation)
        what = f"{method} {path.partition('?')[0]}"
        try:
            async with asyncio.timeout(timeout_s):
                request = await self._request(method, path, sent, body)
                return await self._read(what, await self._ask(request, caller))
        except (TimeoutError, NoAnswer) as error:
            raise self._silent(what, error) from error

    async def upload(
        self,
        method: str,
        path: str,
        chunks: AsyncIterable[bytes],
        *,
        caller: Caller,
        operation: Operation | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = CALL_S,
    ) -> Answer:
        """Send a body that is made while it is sent. `timeout_s` holds for each wait, not for all.

        It is sent once: a 401 is not tried again.
        """
        sent = {
            "content-type": "application/octet-stream",
            "transfer-encoding": "chunked",
            **_lower(headers),
        }
        if operation is not None:
            sent[_OPERATION] = str(operation)
        what = f"{method} {path.partition('?')[0]}"
        try:
            request = await self._request(method, path, sent, aiter(chunks), wait_s=timeout_s)
            return await self._read(what, await self._ask(request, caller))
        except NoAnswer as error:
            raise self._silent(what, error) from error

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        caller: Caller,
        version: str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = CALL_S,
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Open an answer's body, read in chunks. `timeout_s` holds for each wait.

        An answer that breaks off raises Unavailable where it is read.
        """
        sent = {**_lower(headers), **_version_headers(self.service, version)}
        what = f"{method} {path.partition('?')[0]}"
        try:
            request = await self._request(method, path, sent, b"", streams=True, wait_s=timeout_s)
            response = await self._ask(request, caller)
            if response.status >= 300:
                await self._read(what, response)
        except NoAnswer as error:
            raise self._silent(what, error) from error
        try:
            yield self._chunks(what, response)
        finally:
            await response.aclose()

    async def bury(self, operation: Operation) -> list[str] | None:
        """End an operation at the service, and return the ids it made there.

        A call under it that still is on its way will be refused. None when the service does not
        know operations: then the caller finds its own work.
        """
        path = f"/mooring/operations/{quote(operation.key, safe='')}"
        try:
            answer = await self.request("DELETE", path, caller=None)
        except NotFound:
            return None
        return typed.convert(answer.json()["made"], list[str])

    async def _request(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: bytes | AsyncIterator[bytes],
        *,
        streams: bool = False,
        wait_s: float | None = None,
    ) -> Request:
        url = await self._catalog.url(self.service) + path
        return Request(method, url, headers, body, streams=streams, wait_s=wait_s)

    async def _ask(self, request: Request, caller: Caller) -> Response:
        own = await self._credentials.token()
        response = await self._send(request, caller, own)
        if response.status != 401 or not isinstance(request.body, bytes):
            return response
        await response.aclose()
        own = await self._credentials.token(instead_of=own)
        response = await self._send(request, caller, own)
        if response.status == 401 and caller is None:
            await response.aclose()
            raise Unavailable(
                f"The {self.service} service does not accept our service user's token.",
                private=f"{request.method} {request.target} was answered 401 twice",
            )
        return response

    async def _send(self, request: Request, caller: Caller, own: str) -> Response:
        headers = self._signed(caller, own, request.headers)
        with bulkhead.calling():
            return await self._network.send(replace(request, headers=headers))

    def _signed(self, caller: Caller, own: str, headers: Mapping[str, str]) -> dict[str, str]:
        signed = {
            **headers,
            "accept": "application/json",
            "user-agent": "mooring",
            "x-auth-token": own if caller is None else caller.token,
        }
        if self._is_service:
            signed["x-service-token"] = own
        if caller is not None:
            if not caller.token:
                raise Unauthenticated("The token of the user who asked is no longer known.")
            if caller.request_id:
                signed["x-openstack-request-id"] = caller.request_id
        return signed

    async def _read(self, what: str, response: Response) -> Answer:
        content = response.body if response.stream is None else await response.whole()
        if response.status >= 300:
            raise refusal(self.service, what, response.status, response.headers, content)
        return Answer(response.status, response.headers, content)

    async def _chunks(self, what: str, response: Response) -> AsyncIterator[bytes]:
        if response.stream is None:
            yield response.body
            return
        try:
            async for chunk in response.stream:
                yield chunk
        except NoAnswer as error:
            raise self._silent(what, error) from error

    def _silent(self, what: str, error: Exception) -> Unavailable:
        return Unavailable(
            f"The {self.service} service did not answer.", private=f"{what}: {error!r}"
        )


def _lower(headers: Mapping[str, str] | None) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()} if headers else {}


def _version_headers(service: str, version: str | None) -> dict[str, str]:
    if version is None:
        return {}
    headers = {"openstack-api-version": f"{service} {version}"}
    if service == "compute":
        headers["x-openstack-nova-api-version"] = version
    elif service == "share":
        headers = {"x-openstack-manila-api-version": version}
    return headers
