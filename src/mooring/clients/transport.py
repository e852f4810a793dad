"""How services reach each other: inside this process when we serve that URL, else by socket."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeAlias

import httpx2

from mooring import limits
from mooring.errors import Bug
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
)

__all__ = ["Deliver", "Forward", "Network", "Request", "Response", "deliver_once"]


class Network(httpx2.AsyncBaseTransport):
    """All that this process can reach.

    `serve` names what is served in this process and `connect` what listens on a Unix socket, both
    by the beginning of the URL; everything else takes a TCP connection. `deliver` stands before
    each call, whichever way it goes: a test that sets it may lose a call (raise NoAnswer without
    `forward`), lose its answer (`forward`, then raise), deliver it twice, or forward it later.
    """

    def __init__(self, authority: str = "") -> None:
        """Reach nothing yet. `authority` is a file that certifies servers, beside the system's."""
        self.deliver: Deliver = deliver_once
        self._authority = authority
        self._near: dict[str, _Way] = {}
        self._away: _Socket | None = None
        self._left: list[_Socket] = []

    def serve(self, url: str, application: Application) -> None:
        """Hand calls to `url` and below it to an application of this process."""
        self._near[url.rstrip("/")] = Neighbour(application)

    def connect(self, url: str, socket: Path) -> None:
        """Hand calls to `url` and below it to the server that listens on a Unix socket."""
        self._near[url.rstrip("/")] = _Socket(str(socket))

    def trust(self, authority: str) -> None:
        """Take what another file certifies instead, from the next call on; empty for none.

        Raises OSError for a file that is no certificate.
        """
        # Without the one of before: of two of one name, OpenSSL believes the first.
        away = _Socket(None, authority)
        if self._away is not None:
            # Calls that are on their way end there.
            self._left.append(self._away)
        self._authority, self._away = authority, away

    def abandon(self) -> None:
        """End the calls that run in this process where they stand, as its death would."""
        for way in self._near.values():
            if isinstance(way, Neighbour):
                way.abandon()

    async def send(self, request: Request) -> Response:
        """Send a request to a whole URL and return the answer. Raises NoAnswer."""
        return await self.deliver(request, self._forward)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Do the same for a caller who speaks httpx2, and raise its errors."""
        try:
            response = await self.send(await _ours(request))
        except TooLate as error:
            raise httpx2.ReadTimeout(str(error), request=request) from error
        except NoAnswer as error:
            raise httpx2.ReadError(str(error), request=request) from error
        return httpx2.Response(
            response.status, headers=response.headers, stream=_Theirs(response, request)
        )

    async def aclose(self) -> None:
        for way in self._near.values():
            await way.aclose()
        for left in (self._away, *self._left):
            if left is not None:
                await left.aclose()

    async def _forward(self, request: Request) -> Response:
        url = request.target.partition("?")[0]
        while True:
            near = self._near.get(url)
            if near is not None:
                return await near.call(request)
            url, slash, _ = url.rpartition("/")
            if not slash:
                break
        self._away = self._away or _Socket(None, self._authority)
        return await self._away.call(request)


class _Socket:
    """A server behind a Unix socket, or all that TCP reaches."""

    def __init__(self, path: str | None, authority: str = "") -> None:
        pool = httpx2.Limits(
            max_connections=limits.CLIENT_CONNECTIONS,
            max_keepalive_connections=limits.CLIENT_IDLE_CONNECTIONS,
            keepalive_expiry=limits.CLIENT_IDLE_S,
        )
        context = ssl.create_default_context() if path is None else False
        if authority and context:
            context.load_verify_locations(authority)
        self._transport = httpx2.AsyncHTTPTransport(
            verify=context, trust_env=False, limits=pool, uds=path
        )

    async def call(self, request: Request) -> Response:
        """Send a request and return its answer. Raises NoAnswer."""
        body, url = request.body, httpx2.URL(request.target)
        sent = httpx2.Request(
            request.method,
            url,
            # A request with a stream of its own comes without, and HTTP/1.1 insists on it.
            headers={"host": url.netloc.decode("ascii"), **request.headers},
            stream=httpx2.ByteStream(body) if isinstance(body, bytes) else _Chunks(body),
            extensions={"timeout": httpx2.Timeout(request.wait_s).as_dict()},
        )
        try:
            response = await self._transport.handle_async_request(sent)
        except httpx2.TransportError as error:
            raise _no_answer(error) from error
        headers = {name.lower(): value for name, value in response.headers.items()}
        answer = Response(response.status_code, b"", headers, _Body(response))
        if request.streams:
            return answer
        return Response(answer.status, await answer.whole(), headers)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


_Way: TypeAlias = Neighbour | _Socket


class _Body:
    """The body of an answer that comes through a socket."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_raw():
                yield chunk
        except httpx2.TransportError as error:
            raise _no_answer(error) from error

    async def aclose(self) -> None:
        await self._response.aclose()


class _Chunks(httpx2.AsyncByteStream):
    """A body for httpx2, made while it is sent."""

    def __init__(self, source: AsyncIterator[bytes]) -> None:
        self._source = source

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._source:
            yield chunk


class _Theirs(httpx2.AsyncByteStream):
    """The body of an answer, for a caller who speaks httpx2."""

    def __init__(self, response: Response, request: httpx2.Request) -> None:
        self._response, self._request = response, request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._response.body:
            yield self._response.body
        if self._response.stream is None:
            return
        try:
            async for chunk in self._response.stream:
                yield chunk
        except TooLate as error:
            raise httpx2.ReadTimeout(str(error), request=self._request) from error
        except NoAnswer as error:
            raise httpx2.ReadError(str(error), request=self._request) from error

    async def aclose(self) -> None:
        await self._response.aclose()


async def _ours(request: httpx2.Request) -> Request:
    stream = request.stream
    body: bytes | AsyncIterator[bytes]
    if isinstance(stream, httpx2.ByteStream):
        body = await request.aread()
    elif isinstance(stream, httpx2.AsyncByteStream):
        body = aiter(stream)
    else:
        raise Bug("The body of a request is not asynchronous.")
    waits: dict[str, float | None] = request.extensions.get("timeout", {})
    return Request(
        request.method,
        str(request.url),
        {name.lower(): value for name, value in request.headers.items()},
        body,
        streams=True,
        wait_s=waits.get("read"),
    )


def _no_answer(error: httpx2.TransportError) -> NoAnswer:
    kind = TooLate if isinstance(error, httpx2.TimeoutException) else NoAnswer
    return kind(repr(error))
