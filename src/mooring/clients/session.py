"""Calls to one service: who asks, in which version, under which operation, and what went wrong.

A session repeats nothing by itself, with one exception: a request answered 401 was not begun, so
it is sent once more with a new token of the service user.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from urllib.parse import quote

import httpx2
import msgspec
from msgspec import Struct

from mooring import bulkhead, limits, typed
from mooring.clients.refusals import refusal
from mooring.errors import NotFound, Unauthenticated, Unavailable
from mooring.fence import operation as operations
from mooring.who import Who

if TYPE_CHECKING:
    from mooring.clients.catalog import Catalog
    from mooring.fence.operation import Operation

Caller: TypeAlias = Who | None
"""A user, whose token goes with our service token beside it; None is the service user itself."""

_BODILESS = ("GET", "HEAD", "DELETE")
CALL_S = 60.0
"""How long a call may take, unless its caller says otherwise."""


class Credentials(Protocol):
    """Our own user at the identity service."""

    async def token(self, *, instead_of: str = "") -> str:
        """Return a token with some life left, and not the refused one. Raises Unavailable."""
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
        network: httpx2.AsyncBaseTransport,
        *,
        service: str,
        catalog: Catalog,
        credentials: Credentials,
        is_service: bool = True,
    ) -> None:
        self.service = service
        self._network, self._catalog, self._credentials = network, catalog, credentials
        self._is_service = is_service

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
        sent = {**(headers or {}), **_version_headers(self.service, version)}
        body = b"" if json is None else msgspec.json.encode(json)
        if body:
            sent["Content-Type"] = "application/json"
        if body or method not in _BODILESS:
            sent["Content-Length"] = str(len(body))
        if operation is not None:
            sent[operations.HEADER] = str(operation)
        what = f"{method} {path.partition('?')[0]}"
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._ask(method, path, caller, sent, httpx2.ByteStream(body))
                return await self._read(what, response)
        except (TimeoutError, httpx2.TransportError) as error:
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
            "Content-Type": "application/octet-stream",
            "Transfer-Encoding": "chunked",
            **(headers or {}),
        }
        if operation is not None:
            sent[operations.HEADER] = str(operation)
        what = f"{method} {path.partition('?')[0]}"
        try:
            response = await self._ask(
                method, path, caller, sent, _Chunks(chunks), wait_s=timeout_s
            )
            return await self._read(what, response)
        except httpx2.TransportError as error:
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
        sent = {**(headers or {}), **_version_headers(self.service, version)}
        what = f"{method} {path.partition('?')[0]}"
        try:
            response = await self._ask(
                method, path, caller, sent, httpx2.ByteStream(b""), wait_s=timeout_s
            )
            if response.status_code >= 300:
                await self._read(what, response)
        except httpx2.TransportError as error:
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

    async def _ask(
        self,
        method: str,
        path: str,
        caller: Caller,
        headers: Mapping[str, str],
        stream: httpx2.ByteStream | _Chunks,
        *,
        wait_s: float | None = None,
    ) -> httpx2.Response:
        url = httpx2.URL(await self._catalog.url(self.service) + path)
        own = await self._credentials.token()
        response = await self._send(method, url, self._signed(caller, own, headers), stream, wait_s)
        if response.status_code != 401 or isinstance(stream, _Chunks):
            return response
        await response.aclose()
        own = await self._credentials.token(instead_of=own)
        response = await self._send(method, url, self._signed(caller, own, headers), stream, wait_s)
        if response.status_code == 401 and caller is None:
            await response.aclose()
            raise Unavailable(
                f"The {self.service} service does not accept our service user's token.",
                private=f"{method} {url} was answered 401 twice",
            )
        return response

    def _signed(self, caller: Caller, own: str, headers: Mapping[str, str]) -> dict[str, str]:
        signed = {
            **headers,
            "Accept": "application/json",
            "User-Agent": "mooring",
            "X-Auth-Token": own if caller is None else caller.token,
        }
        if self._is_service:
            signed["X-Service-Token"] = own
        if caller is not None:
            if not caller.token:
                raise Unauthenticated("The token of the user who asked is no longer known.")
            if caller.request_id:
                signed["X-OpenStack-Request-ID"] = caller.request_id
        return signed

    async def _send(
        self,
        method: str,
        url: httpx2.URL,
        headers: Mapping[str, str],
        stream: httpx2.ByteStream | _Chunks,
        wait_s: float | None,
    ) -> httpx2.Response:
        request = httpx2.Request(
            method,
            url,
            headers=headers,
            stream=stream,
            extensions={"timeout": httpx2.Timeout(wait_s).as_dict()},
        )
        with bulkhead.calling():
            return await self._network.handle_async_request(request)

    async def _read(self, what: str, response: httpx2.Response) -> Answer:
        content = bytearray()
        try:
            async for chunk in response.aiter_raw():
                content += chunk
                if len(content) > limits.CLIENT_BODY_BYTES:
                    raise Unavailable(f"The {self.service} service answers more than we read.")
        finally:
            await response.aclose()
        headers = {name.lower(): value for name, value in response.headers.items()}
        if response.status_code >= 300:
            raise refusal(self.service, what, response.status_code, headers, bytes(content))
        return Answer(response.status_code, headers, bytes(content))

    async def _chunks(self, what: str, response: httpx2.Response) -> AsyncIterator[bytes]:
        try:
            async for chunk in response.aiter_raw():
                yield chunk
        except httpx2.TransportError as error:
            raise self._silent(what, error) from error

    def _silent(self, what: str, error: Exception) -> Unavailable:
        return Unavailable(
            f"The {self.service} service did not answer.", private=f"{what}: {error!r}"
        )


class _Chunks(httpx2.AsyncByteStream):
    def __init__(self, chunks: AsyncIterable[bytes]) -> None:
        self._source = chunks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._source:
            yield chunk


def _version_headers(service: str, version: str | None) -> dict[str, str]:
    if version is None:
        return {}
    headers = {"OpenStack-API-Version": f"{service} {version}"}
    if service == "compute":
        headers["X-OpenStack-Nova-API-Version"] = version
    elif service == "share":
        headers = {"X-OpenStack-Manila-API-Version": version}
    return headers
