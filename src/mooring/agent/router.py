"""The agent's HTTP, small and without a database: routes, bodies, fences, long verbs, errors.

A verb works at most two seconds for an open request; then its caller gets a 202 with a ticket, and
asks for the outcome at `/operations/<ticket>`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive, Scope, Send

from mooring import typed
from mooring.agent_api import verbs
from mooring.agent_api.verbs import Verb
from mooring.agent_api.wire import body_of, status_of
from mooring.errors import Bug, Conflict, Invalid, MooringError, NotFound, Unavailable
from mooring.fence.journal import Answer, Journal
from mooring.fence.operation import HEADER, INCARNATION_HEADER, Operation, parse
from mooring.limits import AGENT_BODY_BYTES, AGENT_PATIENCE_S, AGENT_POLL_S, AGENT_TICKET_S
from mooring.probe import Probe

log = structlog.get_logger()


class Holder(Protocol):
    """What every agent has, as far as this module cares."""

    journal: Journal
    probe: Probe


A = TypeVar("A", bound=Holder)


class Call(Generic[A]):
    """One request: the agent it came to, what its path names, its query and its decoded body."""

    def __init__(self, agent: A, request: Request, path: dict[str, str]) -> None:
        self.agent, self.request, self.path = agent, request, path
        self.operation: Operation | None = parse(request.headers.get(HEADER))
        self.body: Any = None

    @property
    def operation_key(self) -> str:
        """What files under way are named after."""
        return self.operation.key if self.operation else f"unfenced-{uuid.uuid4().hex}"

    @property
    def query(self) -> Mapping[str, str]:
        """The query's parameters."""
        return self.request.query_params

    def number(self, name: str, default: float) -> float:
        """Return a parameter of the query as a number. Raises Invalid."""
        text = self.query.get(name)
        try:
            return default if text is None else float(text)
        except ValueError:
            raise Invalid(f"The parameter {name} must be a number.") from None

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes. Raises Unavailable when the sender goes away."""
        try:
            async for chunk in self.request.stream():
                yield chunk
        except ClientDisconnect as error:
            raise Unavailable("The data ended too early; send it again.") from error


Handler = Callable[[Call[A]], Awaitable[Answer]]


class Handlers(Generic[A]):
    """What a module does for verbs of the table (`agent_api.verbs`)."""

    def __init__(self) -> None:
        self.by_name: dict[str, Handler[A]] = {}

    def of(self, verb: Verb[Any]) -> Callable[[Handler[A]], Handler[A]]:
        """Register what answers a verb."""

        def register(handler: Handler[A]) -> Handler[A]:
            self.by_name[verb.name] = handler
            return handler

        return register


class Router(Generic[A]):
    """The ASGI application of one agent: every verb of the table has its handler.

    The path of a verb without its slash is the resource that the fence knows.
    """

    def __init__(self, agent: A, *groups: Handlers[A]) -> None:
        self._agent = agent
        self._handlers = {name: one for group in groups for name, one in group.by_name.items()}
        if missing := verbs.VERBS.keys() - self._handlers.keys():
            raise Bug(f"Nothing answers the verbs {', '.join(sorted(missing))}.")
        self._tickets: dict[str, asyncio.Task[Answer]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
            status = answer.status
            body = b"" if answer.body is None else msgspec.json.encode(answer.body)
        except MooringError as error:
            status, body = status_of(error), body_of(error)
        except Exception as error:
            log.exception("a verb failed", method=request.method, path=request.url.path)
            status, body = 500, body_of(error)
        headers = [(b"content-type", b"application/json")]
        headers.append((b"content-length", str(len(body)).encode()))
        headers.append(
            (INCARNATION_HEADER.lower().encode(), self._agent.journal.incarnation.encode())
        )
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, request: Request) -> Answer:
        path = request.url.path
        if path.startswith("/operations/"):
            return await self._await_ticket(path.removeprefix("/operations/"), request)
        found = verbs.find(request.method, path)
        if found is None:
            raise NotFound(f"The agent has no {request.method} {path[:200]}.")
        verb, ids = found
        self._check_incarnation(request)
        call = Call(self._agent, request, ids)
        if verb.request is not None:
            call.body = await _read_body(request, verb.request)
        if verb.method == "GET":
            return await self._handlers[verb.name](call)
        work = self._agent.journal.perform(
            call.operation,
            verb.method,
            path.removeprefix("/"),
            partial(self._act, verb, call),
            shared=verb.shared,
        )
        if verb.patient:
            return await work
        return await self._be_patient(asyncio.ensure_future(work))

    async def _act(self, verb: Verb[Any], call: Call[A]) -> Answer:
        self._agent.probe.at(f"agent/{verb.name}/begin")
        answer = await self._handlers[verb.name](call)
        self._agent.probe.at(f"agent/{verb.name}/acted")
        return answer

    def _check_incarnation(self, request: Request) -> None:
        named = request.headers.get(INCARNATION_HEADER)
        ours = self._agent.journal.incarnation
        if named and named != ours:
            raise Conflict(
                "The agent is not the one that this call was prepared for: it was set up anew. "
                "Nothing was done; look at the host again.",
                status=412,
                incarnation=ours,
            )

    async def _be_patient(self, task: asyncio.Future[Answer]) -> Answer:
        """Wait a little, then hand out a ticket."""
        work = asyncio.ensure_future(task)
        done, _ = await asyncio.wait({work}, timeout=AGENT_PATIENCE_S)
        if done:
            return work.result()
        ticket = uuid.uuid4().hex
        self._tickets[ticket] = _as_task(work)
        loop = asyncio.get_running_loop()

        def keep_a_while(_: asyncio.Future[Answer]) -> None:
            loop.call_later(AGENT_TICKET_S, self._tickets.pop, ticket, None)

        work.add_done_callback(keep_a_while)
        return Answer(status=202, body={"ticket": ticket})

    async def _await_ticket(self, ticket: str, request: Request) -> Answer:
        if (task := self._tickets.get(ticket)) is None:
            raise Unavailable("The agent was restarted meanwhile; ask for the same verb again.")
        wait_s = float(request.query_params.get("wait", AGENT_POLL_S))
        done, _ = await asyncio.wait({task}, timeout=min(wait_s, AGENT_POLL_S))
        if not done:
            return Answer(status=202, body={"ticket": ticket})
        return task.result()


def _as_task(future: asyncio.Future[Answer]) -> asyncio.Task[Answer]:
    if not isinstance(future, asyncio.Task):
        raise Bug("Work must be a task.")
    return future


async def _read_body(request: Request, kind: Any) -> Any:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > AGENT_BODY_BYTES:
            raise Invalid(f"The body is larger than {AGENT_BODY_BYTES} bytes.")
    try:
        return typed.decode(bytes(body), kind)
    except msgspec.DecodeError as error:
        raise Invalid(f"The body is not what this verb takes: {error}.") from error
