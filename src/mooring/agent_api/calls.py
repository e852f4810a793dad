"""What every verb of the agent's client is made of: headers, tickets, answers, refusals."""

from __future__ import annotations

import time
from datetime import timedelta
from types import NoneType
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec
import structlog
from msgspec import Struct

from mooring import typed
from mooring.agent_api.transport import Request, Response, Wire
from mooring.agent_api.verbs import Verb
from mooring.agent_api.wire import error_of
from mooring.bulkhead import Door
from mooring.errors import Bug, NotFound, Unavailable
from mooring.fence.operation import HEADER, INCARNATION_HEADER, Operation
from mooring.limits import AGENT_CALL_S, AGENT_POLL_S

T = TypeVar("T")
log = structlog.get_logger()


class _Ticket(Struct, frozen=True):
    """What a verb is answered with that takes longer."""

    ticket: str


class Calls:
    """The wire to one agent; `AgentClient` and its parts add the verbs."""

    def __init__(self, name: str, wire: Wire, door: Door | None = None) -> None:
        self.name, self._wire = name, wire
        self.door = door or Door(name)
        self.incarnation = ""

    async def close(self) -> None:
        """Let go of the connections to the agent."""
        await self._wire.close()

    def _headers(self, operation: Operation | None) -> dict[str, str]:
        headers = {"content-type": "application/json"}
        if operation is not None:
            headers[HEADER.lower()] = str(operation)
        if self.incarnation:
            headers[INCARNATION_HEADER.lower()] = self.incarnation
        return headers

    async def ask(
        self,
        verb: Verb[T],
        *ids: str,
        body: Any = None,
        operation: Operation | None = None,
        timeout_s: float = AGENT_CALL_S,
        **query: str | float,
    ) -> T:
        """Ask for a verb of the table on the resource that the ids name; return its answer."""
        answer = await self._exchange(
            verb, verb.target(*ids, **query), body, operation=operation, timeout_s=timeout_s
        )
        return decode(verb.answer, answer)

    async def find(self, verb: Verb[T], *ids: str) -> T | None:
        """Return what a verb that reads answers, or None when there is no such thing."""
        try:
            return await self.ask(verb, *ids)
        except NotFound:
            return None

    async def claim(
        self, verb: Verb[None], resource_id: str, operation: Operation, timeout_s: float
    ) -> None:
        """Ask for a verb that only raises the fence's mark; an agent without it is left alone."""
        try:
            await self.ask(verb, resource_id, operation=operation, timeout_s=timeout_s)
        except NotFound:
            log.warning("an agent of the release before claims nothing", verb=verb.name)

    async def _exchange(
        self,
        verb: Verb[Any],
        target: str,
        body: Any = None,
        *,
        operation: Operation | None = None,
        timeout_s: float = AGENT_CALL_S,
    ) -> Response:
        content = b"" if body is None else msgspec.json.encode(body)
        # Reading is never refused for the incarnation: that is how another one is found out.
        headers = {} if verb.method == "GET" else self._headers(operation)
        return await self._finish(Request(verb.method, target, headers, content), timeout_s)

    async def _finish(self, request: Request, timeout_s: float) -> Response:
        """Send through the host's door, and follow a 202 to its end."""
        deadline = time.monotonic() + timeout_s
        async with self.door.passage(reads=request.method == "GET"):
            answer = await self._send(request, timeout_s)
            while answer.status == 202:
                ticket = decode(_Ticket, answer).ticket
                left = deadline - time.monotonic()
                if left <= 0:
                    raise Unavailable(
                        f"Host {self.name} was not done within {timeout_s:g} s; it goes on. "
                        "Ask again.",
                        private=f"{request.method} {request.target}, ticket {ticket}",
                        goes_on=True,
                    )
                answer = await self._poll(ticket, min(left, AGENT_POLL_S))
        if answer.status >= 400:
            raise self._refusal(answer)
        return answer

    async def _send(
        self, request: Request, timeout_s: float, *, may_wait_s: float = 0.0
    ) -> Response:
        """Send once. A host that leaves this unanswered, but for an image's data, is silent."""
        if not isinstance(request.body, bytes):
            # An image on its way takes as long as it takes, and its source may fail as well.
            return await self._wire.send(request, timeout_s)
        due = self.door.now() + timedelta(seconds=may_wait_s)
        try:
            with self.door.asking(due):
                answer = await self._wire.send(request, min(timeout_s, AGENT_CALL_S) + may_wait_s)
        except Unavailable:
            self.door.missed(due)
            raise
        self.door.answered()
        return answer

    async def _poll(self, ticket: str, wait_s: float) -> Response:
        target = f"/operations/{quote(ticket, safe='')}?wait={wait_s:.3f}"
        return await self._send(Request("GET", target, {}), AGENT_CALL_S, may_wait_s=wait_s)

    def _refusal(self, answer: Response) -> Exception:
        error = error_of(answer.status, answer.body, self.name)
        if answer.status == 412 and "incarnation" in error.detail:
            return Unavailable(error.public, private=error.private, **error.detail)
        return error


def decode(kind: Any, answer: Response) -> Any:
    """Return an answer's body as `kind`; None for NoneType. Raises Bug."""
    if kind is NoneType:
        return None
    try:
        return typed.decode(answer.body, kind)
    except msgspec.DecodeError as error:
        raise Bug("An agent gave an answer that makes no sense.", private=str(error)) from error
