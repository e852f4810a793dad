"""Posts notifications to a URL: one request each, as JSON."""

from __future__ import annotations

import asyncio

import httpx2
import msgspec

from mooring.errors import Invalid, Unavailable
from mooring.limits import NOTIFY_CALL_S
from mooring.notify.outbox import Notification
from mooring.notify.targets import envelope

_NEVER = (400, 413, 415, 422)
"""Answers that say that this notification will not be taken, however often it is sent."""


class WebhookTarget:
    """A URL that takes notifications with POST and answers 2xx once it has one.

    User and password in the URL are sent as basic authentication. A redirection is not followed:
    what is meant for one receiver goes to no other.
    """

    def __init__(self, network: httpx2.AsyncBaseTransport, url: str) -> None:
        given = httpx2.URL(url)
        login = (given.username, given.password) if given.userinfo else None
        # Without the login the URL may be shown, and is found among what this process serves.
        self._url, self._where = given.copy_with(userinfo=b""), given.host
        self._client = httpx2.AsyncClient(
            transport=_Borrowed(network), auth=login, timeout=NOTIFY_CALL_S, trust_env=False
        )

    async def deliver(self, notification: Notification) -> None:
        body = msgspec.json.encode(envelope(notification))
        headers = {"Content-Type": "application/json", "User-Agent": "mooring-notifications"}
        try:
            async with asyncio.timeout(NOTIFY_CALL_S):
                answer = await self._client.post(self._url, content=body, headers=headers)
        except (TimeoutError, httpx2.TransportError) as error:
            why = f"{type(error).__name__} {error}".strip()
            raise Unavailable(f"The webhook at {self._where} is silent: {why}.") from error
        if answer.status_code in _NEVER:
            raise Invalid(f"The webhook at {self._where} answered {answer.status_code}.")
        if not answer.is_success:
            raise Unavailable(f"The webhook at {self._where} answered {answer.status_code}.")

    async def close(self) -> None:
        await self._client.aclose()


class _Borrowed(httpx2.AsyncBaseTransport):
    """The process's network, which is not ours to close."""

    def __init__(self, network: httpx2.AsyncBaseTransport) -> None:
        self._network = network

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        return await self._network.handle_async_request(request)
