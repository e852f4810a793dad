"""The webhook: what it sends, and what each answer means."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from starlette.requests import Request
from starlette.responses import Response

from mooring.clients.transport import Network
from mooring.clients.webhook import WebhookTarget
from mooring.errors import Invalid, Unavailable
from mooring.neighbour import NoAnswer
from mooring.notify import outbox
from mooring.notify.outbox import Notification
from tests.cloud import SimulatedCloud

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from mooring.clients.transport import Forward
    from mooring.clients.transport import Request as Call
    from mooring.clients.transport import Response as Answer

pytestmark = pytest.mark.anyio

URL = "http://hook.test/in"
ONE = Notification(
    id=1,
    message_id="b2a6f0d3-53f1-4e0b-8d0c-0c1d6b0f6a47",
    event_type="volume.create.end",
    publisher="volume.h1@simulated",
    priority="INFO",
    payload={"size": 1},
    created_at=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
)


class Hook:
    """An application that takes notifications, and answers what the test says."""

    def __init__(self) -> None:
        self.status = 204
        self.got: list[Any] = []
        self.headers: list[dict[str, str]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.headers.append(dict(request.headers))
        body = await request.body()
        if self.status < 300:
            self.got.append(json.loads(body))
        moved = {"location": "http://elsewhere.test/"} if self.status == 307 else None
        await Response(status_code=self.status, headers=moved)(scope, receive, send)


@pytest.fixture
def hook() -> Hook:
    return Hook()


@pytest.fixture
async def network(hook: Hook, anyio_backend: str) -> AsyncIterator[Network]:
    network = Network()
    network.serve("http://hook.test", hook)
    yield network
    await network.aclose()


async def test_a_notification_is_posted_as_oslo_messaging_would_shape_it(
    hook: Hook, network: Network
) -> None:
    target = WebhookTarget(network, "http://me:secret@hook.test/in")
    await target.deliver(ONE)
    await target.close()

    assert hook.got == [
        {
            "message_id": "b2a6f0d3-53f1-4e0b-8d0c-0c1d6b0f6a47",
            "publisher_id": "volume.h1@simulated",
            "event_type": "volume.create.end",
            "priority": "INFO",
            "timestamp": "2026-01-02 03:04:05.000006",
            "payload": {"size": 1},
        }
    ]
    (headers,) = hook.headers
    assert headers["content-type"] == "application/json"
    assert headers["authorization"] == f"Basic {b64encode(b'me:secret').decode()}"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (307, Unavailable),
        (400, Invalid),
        (401, Unavailable),
        (404, Unavailable),
        (422, Invalid),
        (503, Unavailable),
    ],
)
async def test_an_answer_tells_whether_to_try_again(
    hook: Hook, network: Network, status: int, error: type[Exception]
) -> None:
    hook.status = status
    target = WebhookTarget(network, "http://me:secret@hook.test/in")
    with pytest.raises(error) as caught:
        await target.deliver(ONE)
    await target.close()

    assert str(status) in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_silent_webhook_is_tried_again(hook: Hook, network: Network) -> None:
    async def lose(request: Call, forward: Forward) -> Answer:
        await forward(request)
        raise NoAnswer("The answer was lost.")

    network.deliver = lose
    target = WebhookTarget(network, URL)
    with pytest.raises(Unavailable):
        await target.deliver(ONE)
    await target.close()


async def test_a_cloud_hands_its_notifications_to_the_webhook_until_it_has_each(
    hook: Hook, tmp_path: Path
) -> None:
    cloud = SimulatedCloud(tmp_path, notifications=("webhook", "keep"), notifications_webhook=URL)
    await cloud.open()
    cloud.network.serve("http://hook.test", hook)
    hook.status = 503
    await cloud.ask("POST", "/volume/v3/volumes", {"volume": {"size": 1}})
    await cloud.settle()
    deliverer = cloud.cloud.deliverers["volume"]
    with pytest.raises(Unavailable):
        await deliverer.deliver("webhook")
    await cloud.restart()
    cloud.network.serve("http://hook.test", hook)
    hook.status = 200
    await cloud.cloud.deliverers["volume"].deliver("webhook")

    assert [one["event_type"] for one in hook.got] == ["volume.create.start", "volume.create.end"]
    kept = await cloud.told("volume")
    assert [one["message_id"] for one in hook.got] == [one.message_id for one in kept]
    store = cloud.cloud.stores["volume"]
    assert await store.read(lambda tx: outbox.read(tx, "webhook")) == []
    await cloud.close()
