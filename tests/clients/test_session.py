from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from starlette.requests import Request as Asked
from starlette.responses import JSONResponse, StreamingResponse
from starlette.responses import Response as Answered

from mooring.clients.catalog import Entry, FixedCatalog, find, versioned
from mooring.clients.session import Session
from mooring.clients.transport import Forward, Network, Request, Response
from mooring.errors import (
    Conflict,
    Forbidden,
    Invalid,
    MooringError,
    NotFound,
    OverQuota,
    Unauthenticated,
    Unavailable,
)
from mooring.fence.operation import Operation
from mooring.neighbour import NoAnswer
from mooring.who import Who

pytestmark = pytest.mark.anyio
OPERATION = Operation("saga-1", "reserve", 1, 7)
USER = Who(user_id="u1", token="users-token", request_id="req-1")


class Peer:
    """A volume service that answers what the test lays ready."""

    def __init__(self) -> None:
        self.ready: list[Answered] = []
        self.asked: list[Asked] = []
        self.bodies: list[bytes] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Asked(scope, receive)
        self.bodies.append(await request.body())
        self.asked.append(request)
        await self.ready.pop(0)(scope, receive, send)

    def header(self, name: str) -> str | None:
        return self.asked[-1].headers.get(name)


class Tokens:
    """Service tokens `own-1`, `own-2` ..., a new one whenever one is refused."""

    def __init__(self) -> None:
        self.count = 1

    async def token(self, *, instead_of: str = "") -> str:
        if instead_of == f"own-{self.count}":
            self.count += 1
        return f"own-{self.count}"

    async def user_id(self) -> str:
        return "own"


class Bench:
    def __init__(self) -> None:
        self.peer, self.network = Peer(), Network()
        self.network.serve("http://cloud/volume", self.peer)
        self.session = Session(
            self.network,
            service="volume",
            catalog=FixedCatalog({"volume": "http://cloud/volume/v3"}),
            credentials=Tokens(),
        )

    async def get(self, *ready: Answered, caller: Who | None = None) -> Any:
        self.peer.ready = list(ready)
        return await self.session.request("GET", "/volumes/1?all=1", caller=caller)


@pytest.fixture
def bench() -> Bench:
    return Bench()


async def test_a_users_call_carries_both_tokens_and_the_request_id(bench: Bench) -> None:
    await bench.get(JSONResponse({}), caller=USER)
    assert bench.peer.header("x-auth-token") == "users-token"
    assert bench.peer.header("x-service-token") == "own-1"
    assert bench.peer.header("x-openstack-request-id") == "req-1"
    assert str(bench.peer.asked[0].url).endswith("/volume/v3/volumes/1?all=1")


async def test_our_own_call_carries_the_service_users_token(bench: Bench) -> None:
    await bench.get(JSONResponse({}))
    assert bench.peer.header("x-auth-token") == "own-1"
    assert bench.peer.header("x-service-token") == "own-1"


async def test_a_user_whose_token_was_wiped_asks_nothing(bench: Bench) -> None:
    with pytest.raises(Unauthenticated):
        await bench.get(JSONResponse({}), caller=Who(user_id="u1"))
    assert bench.peer.asked == []


async def test_version_and_operation_go_with_the_call(bench: Bench) -> None:
    bench.peer.ready = [JSONResponse({"ok": True}, 202)]
    answer = await bench.session.request(
        "POST", "/volumes", caller=None, json={"a": 1}, version="3.44", operation=OPERATION
    )
    assert (answer.status, answer.json()) == (202, {"ok": True})
    assert bench.peer.header("openstack-api-version") == "volume 3.44"
    assert bench.peer.header("mooring-operation") == "saga-1.reserve;1;7"
    assert bench.peer.bodies == [b'{"a":1}']


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, Invalid),
        (403, Forbidden),
        (404, NotFound),
        (405, Invalid),
        (406, Invalid),
        (408, Unavailable),
        (409, Conflict),
        (410, Conflict),
        (412, Conflict),
        (413, OverQuota),
        (429, Unavailable),
        (500, Unavailable),
        (503, Unavailable),
        (507, Unavailable),
        (302, Unavailable),
    ],
)
async def test_a_status_becomes_its_kind(
    bench: Bench, status: int, kind: type[MooringError]
) -> None:
    fault = {"someFault": {"code": status, "message": "it is so"}}
    with pytest.raises(kind) as caught:
        await bench.get(JSONResponse(fault, status))
    assert type(caught.value) is kind
    assert "it is so" in str(caught.value)
    assert caught.value.detail == {"http_status": status}


@pytest.mark.parametrize(
    "body",
    [
        b'{"error": {"code": 404, "title": "Not Found", "message": "no boat"}}',
        b'{"itemNotFound": {"code": 404, "message": "no boat"}}',
        b'{"errors": [{"status": 404, "detail": "no boat"}]}',
        b'{"message": "no boat", "code": "404 Not Found"}',
    ],
)
async def test_the_message_is_found_in_every_shape_of_fault(bench: Bench, body: bytes) -> None:
    with pytest.raises(NotFound) as caught:
        await bench.get(Answered(body, 404, media_type="application/json"))
    assert caught.value.public == "no boat"


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (b"<html><h1>no</h1> boat</html>", "text/html"),
        (b"no boat", "text/plain"),
    ],
)
async def test_the_message_is_found_in_a_page(bench: Bench, body: bytes, media: str) -> None:
    with pytest.raises(NotFound) as caught:
        await bench.get(Answered(body, 404, media_type=media))
    assert caught.value.public == "no boat"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"a": 1}', b'{"errors": []}', b"\xff"])
async def test_a_refusal_without_a_message_names_its_status(bench: Bench, body: bytes) -> None:
    with pytest.raises(NotFound, match="404"):
        await bench.get(Answered(body, 404, media_type="application/json"))


@pytest.mark.parametrize(
    "answer",
    [
        JSONResponse({}, 409, {"Mooring-Busy": "1"}),
        JSONResponse({"errors": [{"detail": "x", "code": "placement.concurrent_update"}]}, 409),
    ],
)
async def test_a_conflict_that_will_pass_is_busy(bench: Bench, answer: Answered) -> None:
    with pytest.raises(Conflict) as caught:
        await bench.get(answer)
    assert caught.value.detail["busy"] is True


async def test_a_401_is_tried_once_more_with_a_new_service_token(bench: Bench) -> None:
    await bench.get(Answered(status_code=401), JSONResponse({}), caller=USER)
    assert bench.peer.header("x-service-token") == "own-2"


async def test_a_second_401_is_the_users_or_else_our_misfortune(bench: Bench) -> None:
    twice = [Answered(status_code=401), Answered(status_code=401)]
    with pytest.raises(Unauthenticated):
        await bench.get(*twice, caller=USER)
    with pytest.raises(Unavailable):
        await bench.get(*twice)


async def test_nothing_else_is_tried_again(bench: Bench) -> None:
    with pytest.raises(Unavailable):
        await bench.get(Answered(status_code=503), JSONResponse({}))
    assert len(bench.peer.asked) == 1


async def test_a_lost_call_is_unavailable(bench: Bench) -> None:
    async def lose(request: Request, forward: Forward) -> Response:
        raise NoAnswer("lost")

    bench.network.deliver = lose
    with pytest.raises(Unavailable, match="volume service did not answer"):
        await bench.get(JSONResponse({}))


async def test_no_answer_within_the_deadline_is_unavailable(bench: Bench) -> None:
    async def hang(request: Request, forward: Forward) -> Response:
        await asyncio.Event().wait()
        raise AssertionError

    bench.network.deliver = hang
    with pytest.raises(Unavailable):
        await bench.session.request("GET", "/volumes", caller=None, timeout_s=0.05)


async def test_an_answer_that_is_not_json_is_unavailable(bench: Bench) -> None:
    answer = await bench.get(Answered(b"<html>"))
    with pytest.raises(Unavailable):
        answer.json()


async def test_burying_tells_what_was_made(bench: Bench) -> None:
    bench.peer.ready = [JSONResponse({"made": ["a1"]})]
    assert await bench.session.bury(OPERATION) == ["a1"]
    assert bench.peer.asked[0].url.path == "/volume/v3/mooring/operations/saga-1.reserve"


async def test_a_peer_without_operations_is_told_apart(bench: Bench) -> None:
    bench.peer.ready = [JSONResponse({}, 404)]
    assert await bench.session.bury(OPERATION) is None


async def test_a_body_is_streamed_down(bench: Bench) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"ab"
        yield b"cd"

    bench.peer.ready = [StreamingResponse(chunks())]
    async with bench.session.stream("GET", "/images/1/file", caller=None) as stream:
        assert b"".join([chunk async for chunk in stream]) == b"abcd"


async def test_a_refused_stream_raises_before_it_opens(bench: Bench) -> None:
    bench.peer.ready = [JSONResponse({"x": {"message": "none"}}, 404)]
    with pytest.raises(NotFound, match="none"):
        async with bench.session.stream("GET", "/images/1/file", caller=None):
            pass


async def test_a_stream_that_breaks_off_is_unavailable(bench: Bench) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"ab"
        raise RuntimeError("dropped")

    bench.peer.ready = [StreamingResponse(chunks())]
    async with bench.session.stream("GET", "/images/1/file", caller=None) as stream:
        with pytest.raises(Unavailable):
            _ = [chunk async for chunk in stream]


async def test_a_body_is_streamed_up(bench: Bench) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"ab"
        yield b"cd"

    bench.peer.ready = [Answered(status_code=204)]
    answer = await bench.session.upload("PUT", "/images/1/file", chunks(), caller=None)
    assert (answer.status, bench.peer.bodies) == (204, [b"abcd"])


@pytest.mark.parametrize(
    ("service", "url", "root"),
    [
        ("volume", "http://h/volume/v3/0123abcd", "http://h/volume/v3"),
        ("volume", "http://h/volume", "http://h/volume/v3"),
        ("image", "http://h/image/", "http://h/image/v2"),
        ("compute", "http://h/compute/v2.1/", "http://h/compute/v2.1"),
        ("placement", "http://h/placement", "http://h/placement"),
    ],
)
def test_a_url_ends_with_its_version(service: str, url: str, root: str) -> None:
    assert versioned(service, url) == root


def test_a_service_is_found_under_any_of_its_types() -> None:
    endpoints = [
        {"interface": "public", "region_id": "one", "url": "http://public/v3"},
        {"interface": "internal", "region_id": "one", "url": "http://internal/v3"},
        {"interface": "internal", "region_id": "two", "url": "http://two/v3"},
    ]
    entries = msgspec.convert([{"type": "volumev3", "endpoints": endpoints}], list[Entry])
    assert find(entries, "volume", interface="internal", region="one") == "http://internal/v3"
    assert find(entries, "volume", interface="admin", region="one") == "http://public/v3"
    with pytest.raises(Unavailable, match="image"):
        find(entries, "image", interface="public")
