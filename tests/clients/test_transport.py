"""The same law on both ways to a service: inside this process, and through a socket."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from httpx2 import AsyncClient, ReadError, ReadTimeout
from starlette.requests import ClientDisconnect
from starlette.requests import Request as Asked
from starlette.responses import PlainTextResponse, StreamingResponse

from mooring.clients.transport import Forward, Network, Request, Response
from mooring.neighbour import NoAnswer, TooLate

pytestmark = pytest.mark.anyio
WAYS = ["near", "socket"]
PATIENCE_S, LATE_S = 0.05, 60.0
MIB = 1 << 20
flavour: ContextVar[str] = ContextVar("flavour", default="empty")


class Kitchen:
    """An application that cooks: slowly, badly or in many courses, as the path says."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.done = asyncio.Event()
        self.left = asyncio.Event()
        self.ended = asyncio.Event()
        self.orders: list[str] = []
        self.served = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        request = Asked(scope, receive)
        self.orders.append(scope["path"])
        verb: Callable[[Asked], Awaitable[Any]] = getattr(self, scope["path"].rpartition("/")[2])
        response = await verb(request)
        try:
            await response(scope, receive, send)
        finally:
            self.ended.set()

    async def now(self, request: Asked) -> PlainTextResponse:
        return PlainTextResponse(await request.body() or b"soup", headers={"X-Table": "4"})

    async def slow(self, request: Asked) -> PlainTextResponse:
        await self.gate.wait()
        self.done.set()
        return PlainTextResponse("stew")

    async def burnt(self, request: Asked) -> PlainTextResponse:
        raise RuntimeError("the secret is salt")

    async def taste(self, request: Asked) -> PlainTextResponse:
        return PlainTextResponse(flavour.get())

    async def count(self, request: Asked) -> PlainTextResponse:
        size = 0
        try:
            async for chunk in request.stream():
                size += len(chunk)
        except ClientDisconnect:
            self.left.set()
        return PlainTextResponse(str(size))

    async def refuse(self, request: Asked) -> PlainTextResponse:
        return PlainTextResponse("full", 413)

    async def deaf(self, request: Asked) -> PlainTextResponse:
        await self.gate.wait()
        return PlainTextResponse("what?")

    async def feast(self, request: Asked) -> StreamingResponse:
        return StreamingResponse(self.courses())

    async def banquet(self, request: Asked) -> StreamingResponse:
        return StreamingResponse(self.courses(65))

    async def courses(self, count: int = 64) -> AsyncIterator[bytes]:
        for _ in range(count):
            self.served += 1
            await asyncio.sleep(0)
            yield b"x" * MIB

    async def torn(self, request: Asked) -> StreamingResponse:
        async def half() -> AsyncIterator[bytes]:
            yield b"x"
            raise RuntimeError("dropped")

        return StreamingResponse(half())


async def courses(chunks: int, *, fails: bool = False) -> AsyncIterator[bytes]:
    """A request's body that is made while it is sent, and may fail half-way."""
    for _ in range(chunks):
        yield b"y" * MIB
    if fails:
        raise ValueError("out of stock")


@asynccontextmanager
async def listening(application: Any, path: Path) -> AsyncGenerator[None, None]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        config = uvicorn.Config(application, lifespan="off", log_config=None, http="h11")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        yield
        server.should_exit = True
        await serving


class Way:
    """A network and the kitchen at its end."""

    def __init__(self, network: Network, kitchen: Kitchen) -> None:
        self.network, self.kitchen = network, kitchen

    async def order(
        self,
        what: str,
        body: bytes | AsyncIterator[bytes] = b"",
        *,
        patience_s: float = LATE_S,
        method: str = "POST",
        streams: bool = False,
    ) -> Response:
        headers = {"transfer-encoding": "chunked"}
        if isinstance(body, bytes):
            headers = {"content-length": str(len(body))}
        url = f"http://kitchen/menu/{what}?a=1"
        return await self.network.send(
            Request(method, url, headers, body, streams=streams, wait_s=patience_s)
        )

    async def eat(
        self, what: str, body: bytes | AsyncIterator[bytes] = b"", **how: Any
    ) -> tuple[int, bytes]:
        response = await self.order(what, body, **how)
        return response.status, await response.whole()


@pytest.fixture(params=WAYS)
async def way(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Way]:
    kitchen, network = Kitchen(), Network()
    if request.param == "near":
        network.serve("http://kitchen/menu", kitchen)
        yield Way(network, kitchen)
        kitchen.gate.set()
        await network.aclose()
        return
    async with listening(kitchen, tmp_path / "kitchen.sock"):
        network.connect("http://kitchen", tmp_path / "kitchen.sock")
        yield Way(network, kitchen)
        kitchen.gate.set()
        await network.aclose()


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
def streams(request: pytest.FixtureRequest) -> bool:
    """Whether the answer is wanted as it comes."""
    return request.param


async def test_an_answer_comes_with_status_headers_and_body(way: Way, streams: bool) -> None:
    response = await way.order("now", b"salt", streams=streams)
    assert (response.status, response.headers["x-table"]) == (200, "4")
    assert (response.stream is not None) == streams
    assert await response.whole() == b"salt"


async def test_a_slow_answer_comes_within_the_deadline(way: Way) -> None:
    order = asyncio.create_task(way.eat("slow"))
    way.kitchen.gate.set()
    assert await order == (200, b"stew")


async def test_no_answer_ends_at_the_deadline_and_the_callee_goes_on(
    way: Way, streams: bool
) -> None:
    with pytest.raises(TooLate):
        await way.order("slow", patience_s=PATIENCE_S, streams=streams)
    assert not way.kitchen.done.is_set()
    way.kitchen.gate.set()
    await asyncio.wait_for(way.kitchen.done.wait(), LATE_S)


async def test_a_late_answer_goes_nowhere(way: Way, streams: bool) -> None:
    with pytest.raises(TooLate):
        await way.order("slow", patience_s=PATIENCE_S, streams=streams)
    way.kitchen.gate.set()
    await asyncio.wait_for(way.kitchen.done.wait(), LATE_S)
    assert await way.eat("now") == (200, b"soup")


async def test_a_caller_who_is_cancelled_leaves_the_callee_alone(way: Way) -> None:
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(way.order("slow"), PATIENCE_S)
    way.kitchen.gate.set()
    await asyncio.wait_for(way.kitchen.done.wait(), LATE_S)


async def test_a_callee_that_fails_is_a_500_without_its_reason(way: Way, streams: bool) -> None:
    status, body = await way.eat("burnt", streams=streams)
    assert status == 500
    assert b"salt" not in body


async def test_the_callee_sees_nothing_of_the_callers_context(way: Way) -> None:
    flavour.set("garlic")
    assert await way.eat("taste") == (200, b"empty")


async def test_head_has_no_body(way: Way, streams: bool) -> None:
    assert await way.eat("now", method="HEAD", streams=streams) == (200, b"")


async def test_a_streamed_request_arrives_whole(way: Way) -> None:
    assert await way.eat("count", courses(20)) == (200, str(20 * MIB).encode())


async def test_a_refusal_ends_an_upload_that_nobody_reads(way: Way) -> None:
    assert await way.eat("refuse", b"small") == (413, b"full")


async def test_an_upload_that_nobody_takes_ends_at_the_deadline(way: Way) -> None:
    with pytest.raises(TooLate):
        await way.order("deaf", courses(64), patience_s=PATIENCE_S)


async def test_an_upload_that_fails_tells_both_sides(way: Way) -> None:
    with pytest.raises(ValueError, match="out of stock"):
        await way.order("count", courses(2, fails=True))
    await asyncio.wait_for(way.kitchen.left.wait(), LATE_S)


async def test_a_streamed_answer_arrives_whole(way: Way, streams: bool) -> None:
    status, body = await way.eat("feast", streams=streams)
    assert (status, len(body)) == (200, 64 * MIB)


async def test_a_streamed_answer_waits_for_its_reader(way: Way) -> None:
    response = await way.order("feast", streams=True)
    assert response.stream is not None
    await anext(aiter(response.stream))
    assert way.kitchen.served < 64
    await response.aclose()


async def test_a_reader_who_leaves_ends_the_stream(way: Way) -> None:
    response = await way.order("feast", streams=True)
    assert response.stream is not None
    await anext(aiter(response.stream))
    await response.aclose()
    await asyncio.wait_for(way.kitchen.ended.wait(), LATE_S)
    assert way.kitchen.served < 64


async def test_an_answer_that_breaks_off_is_an_error(way: Way, streams: bool) -> None:
    with pytest.raises(NoAnswer):
        await way.eat("torn", streams=streams)


async def test_a_network_may_lose_a_call(way: Way) -> None:
    async def lose(request: Request, forward: Forward) -> Response:
        raise NoAnswer("lost")

    way.network.deliver = lose
    with pytest.raises(NoAnswer, match="lost"):
        await way.order("now")
    assert way.kitchen.orders == []


async def test_a_network_may_lose_an_answer(way: Way) -> None:
    async def lose(request: Request, forward: Forward) -> Response:
        await (await forward(request)).aclose()
        raise NoAnswer("lost")

    way.network.deliver = lose
    with pytest.raises(NoAnswer, match="lost"):
        await way.order("now")
    assert len(way.kitchen.orders) == 1


async def test_a_network_may_deliver_twice(way: Way) -> None:
    async def repeat(request: Request, forward: Forward) -> Response:
        await (await forward(request)).aclose()
        return await forward(request)

    way.network.deliver = repeat
    assert await way.eat("now", b"salt") == (200, b"salt")
    assert len(way.kitchen.orders) == 2


async def test_a_network_may_deliver_late(way: Way) -> None:
    kept: list[Request] = []

    async def keep(request: Request, forward: Forward) -> Response:
        kept.append(request)
        raise NoAnswer("later")

    normal, way.network.deliver = way.network.deliver, keep
    with pytest.raises(NoAnswer, match="later"):
        await way.order("now", b"salt")
    way.network.deliver = normal
    response = await way.network.send(kept[0])
    assert await response.whole() == b"salt"


async def test_a_caller_who_speaks_httpx2_is_served_too(way: Way) -> None:
    async with AsyncClient(transport=way.network, timeout=LATE_S) as client:
        answer = await client.post("http://kitchen/menu/now", content=b"salt")
        uploaded = await client.post("http://kitchen/menu/count", content=courses(2))
        with pytest.raises(ReadTimeout):
            await client.get("http://kitchen/menu/slow", timeout=PATIENCE_S)
        with pytest.raises(ReadError):
            await client.get("http://kitchen/menu/torn")
        way.kitchen.gate.set()  # for the client closes the network, which waits for who is cooking
    assert (answer.status_code, answer.headers["x-table"], answer.content) == (200, "4", b"salt")
    assert uploaded.content == str(2 * MIB).encode()


async def test_an_answer_longer_than_is_read_is_none(way: Way) -> None:
    response = await way.order("now", b"salt" * 10, streams=True)
    with pytest.raises(NoAnswer, match="longer than 8 bytes"):
        await response.whole(8)


async def test_an_answer_longer_than_the_bound_is_none(way: Way) -> None:
    with pytest.raises(NoAnswer, match=f"longer than {64 * MIB} bytes"):
        await way.order("banquet")


async def test_the_longest_served_url_takes_the_call() -> None:
    network, front, menu = Network(), Kitchen(), Kitchen()
    network.serve("http://kitchen", front)
    network.serve("http://kitchen/menu/", menu)
    await Way(network, menu).eat("now")
    assert (len(front.orders), len(menu.orders)) == (0, 1)
