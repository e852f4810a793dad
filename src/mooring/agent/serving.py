"""How an agent answers: the table of verbs as routes, with fences, incarnations and long verbs.

A verb works at most two seconds for an open request; then its caller gets a 202 with a ticket, and
asks for the outcome at `/operations/<ticket>`.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from msgspec.structs import replace
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect

from mooring.agent.limits import AGENT_BODY_BYTES, AGENT_TICKET_S
from mooring.agent.storage_failures import device_failure_told
from mooring.agent_api import verbs
from mooring.agent_api.verbs import Verb
from mooring.agent_api.wire import STATUS, body_of
from mooring.errors import Bug, Conflict, Invalid, NotFound, Unavailable
from mooring.fence.journal import Answer, Journal
from mooring.fence.operation import HEADER, INCARNATION_HEADER, Operation, parse
from mooring.limits import AGENT_PATIENCE_S, AGENT_POLL_S
from mooring.probe import Probe
from mooring.web import api
from mooring.web.api import Reply, Route, Target
from mooring.web.application import Application
from mooring.web.face import Face, Fault
from mooring.web.identity import NOBODY
from mooring.web.routes import Routes
from mooring.who import Who


class Holder(Protocol):
    """What every agent has, as far as this module cares."""

    journal: Journal
    probe: Probe


A = TypeVar("A", bound=Holder)


class Call(Generic[A]):
    """One request: the agent it came to, what its path names, its query and its decoded body."""

    def __init__(self, call: api.Call[A], body: Any = None) -> None:
        self.agent, self.path, self.operation = call.service, call.path, call.operation
        self.query: Mapping[str, str] = call.query
        self.body = body
        self._stream = call.request.stream

    @property
    def operation_key(self) -> str:
        """What files under way are named after."""
        return self.operation.key if self.operation else f"unfenced-{uuid.uuid4().hex}"

    def number(self, name: str, default: float) -> float:
        """Return a parameter of the query as a number. Raises Invalid."""
        text = self.query.get(name)
        try:
            found = default if text is None else float(text)
        except ValueError:
            found = math.nan
        if not math.isfinite(found):
            raise Invalid(f"The parameter {name} must be a number.")
        return found

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes. Raises Unavailable when the sender goes away."""
        try:
            async for chunk in self._stream():
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


def build_app(agent: A, *groups: Handlers[A]) -> Application[A]:
    """Return the application of one agent: every verb of the table is a route.

    Raises Bug when a verb has no handler.
    """
    handlers = {name: one for group in groups for name, one in group.by_name.items()}
    if missing := verbs.VERBS.keys() - handlers.keys():
        raise Bug(f"Nothing answers the verbs {', '.join(sorted(missing))}.")
    tickets = _Tickets()
    routes = [
        Route(
            method=verb.method,
            path=verb.path,
            handler=partial(_answer, verb, handlers[name], tickets),
            policy=None,
            body=verb.request,
            takes_body=True,
        )
        for name, verb in verbs.VERBS.items()
    ]
    routes.append(
        Route(method="GET", path="/operations/{ticket}", handler=tickets.follow, policy=None)
    )
    face = replace(_FACE, headers={INCARNATION_HEADER: agent.journal.incarnation})
    return Application(agent, Routes(routes), face, gate=_OpenGate())


async def _answer(
    verb: Verb[Any], handler: Handler[A], tickets: _Tickets, call: api.Call[A], body: Any
) -> Reply:
    agent, ids = call.service, call.path
    if not verbs.are_ids(ids.values()):
        raise NotFound(f"The agent has no {verb.method} {call.request.url.path[:200]}.")
    _check_incarnation(agent, call.request.headers)
    asked = Call(call, body)

    async def handle() -> Answer:
        with device_failure_told():
            return await handler(asked)

    if verb.method == "GET":
        return _reply(await handle())

    async def act() -> Answer:
        agent.probe.at(f"agent/{verb.name}/begin")
        answer = await handle()
        agent.probe.at(f"agent/{verb.name}/acted")
        return answer

    # The path without its first slash is the resource that the fence knows.
    resource = verb.target(*ids.values()).removeprefix("/")
    also = verb.ended_also(ids, call.query).removeprefix("/")
    work = agent.journal.perform(
        call.operation, verb.method, resource, act, shared=verb.shared, also=also
    )
    return _reply(await work) if verb.patient else await tickets.be_patient(work)


def _check_incarnation(agent: Holder, headers: Headers) -> None:
    named, ours = headers.get(INCARNATION_HEADER), agent.journal.incarnation
    if named and named != ours:
        raise Conflict(
            "The agent is not the one that this call was prepared for: it was set up anew. "
            "Nothing was done; look at the host again.",
            status=412,
            incarnation=ours,
        )


class _Tickets:
    """The verbs that go on though their request has been answered."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Future[Answer]] = {}

    async def be_patient(self, coming: Awaitable[Answer]) -> Reply:
        """Wait a little, then hand out a ticket."""
        work = asyncio.ensure_future(coming)
        done, _ = await asyncio.wait({work}, timeout=AGENT_PATIENCE_S)
        if done:
            return _reply(work.result())
        ticket = uuid.uuid4().hex
        self._running[ticket] = work
        loop = asyncio.get_running_loop()

        def keep_a_while(_: asyncio.Future[Answer]) -> None:
            loop.call_later(AGENT_TICKET_S, self._running.pop, ticket, None)

        work.add_done_callback(keep_a_while)
        return Reply(202, {"ticket": ticket})

    async def follow(self, call: api.Call[Any]) -> Reply:
        """Answer with the outcome of a verb once there is one, or with its ticket again."""
        ticket = call.path["ticket"]
        if (work := self._running.get(ticket)) is None:
            raise Unavailable("The agent was restarted meanwhile; ask for the same verb again.")
        wait_s = Call(call).number("wait", AGENT_POLL_S)
        done, _ = await asyncio.wait({work}, timeout=min(wait_s, AGENT_POLL_S))
        return _reply(work.result()) if done else Reply(202, {"ticket": ticket})


class _OpenGate:
    """Whoever has reached an agent is let in, and may name operations.

    Its socket turns away all but its owner and root (`mooring.agent.main`).
    """

    async def let_in(self, headers: Headers, request_id: str) -> Who:
        del headers, request_id
        return NOBODY

    def asked_by(self, who: Who) -> Callable[[str, Target], bool]:
        del who
        return lambda _rule, _target: True

    def operation(self, headers: Headers, who: Who) -> Operation | None:
        del who
        return parse(headers.get(HEADER))


def _reply(answer: Answer) -> Reply:
    return Reply(answer.status, answer.body)


def _shape(fault: Fault) -> tuple[str, bytes]:
    return "application/json", body_of(fault.error)


_FACE = Face(
    service="agent",
    segment="",
    shape=_shape,
    documents=lambda _face, _root: {},
    codes=STATUS,
    body_bytes=AGENT_BODY_BYTES,
)
