"""Where a law is tried: a cloud that stands ready for one act, and what can be seen of it.

A scenario is arranged once, and what it arranged is copied for every trial, so the ids in it are
the same each time.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from fnmatch import fnmatchcase
from typing import Any, Protocol

from msgspec import Struct
from sqlalchemy import select

from mooring.agent.settings import Role
from mooring.agent_api import wire
from mooring.agent_api.transport import Forward as HostForward
from mooring.agent_api.transport import Request as HostRequest
from mooring.agent_api.transport import Response as HostResponse
from mooring.clients.refusals import BUSY_HEADER
from mooring.clients.transport import Forward, Request, Response
from mooring.errors import Conflict, Unavailable
from mooring.fence.operation import HEADER
from mooring.neighbour import NoAnswer
from mooring.saga.define import Saga
from mooring.saga.laws import Crash, LawProbe
from mooring.saga.tables import SagaRow
from tests.answers import Answer
from tests.cloud import SimulatedCloud
from tests.laws import history, told
from tests.laws.sight import see
from tests.laws.told import Event

HOSTS: dict[str, tuple[Role, ...]] = {"h1": ("compute",), "s1": ("volume", "share")}
"""A host for servers and another for storage: so each can die without the other."""
THIRD, FOURTH, FIFTH, SIXTH = "h3", "h4", "h5", "h6"
STORE = "s3"
BESIDE = "s1#beside"
"""Another pool of the host for storage."""
OLD = "h7"
"""Has too old a service version for attachments: while it is there, nobody is given any."""
BY_OLD_CALLS = " by old calls"
"""How the name of a scenario ends that has such a host."""
NEIGHBOURS = {THIRD: FOURTH, FIFTH: SIXTH, STORE: "s4", BESIDE: "s2#beside", OLD: "h8"}
"""Where a scenario has other hosts, to move to, for servers or for volumes; and where its neighbour
has them."""
TOLD = {
    "config_drive": True,
    "user_data": base64.b64encode(b"#!/bin/sh\n").decode(),
    "metadata": {"role": "db"},
}
"""What a new server of some scenarios is told besides, on a config drive."""
LOOKS = 20
"""How often to look, a second apart, whether an operation waits for its host."""
_BRIEF = 160
"""How much of a body is noted down, in characters."""
COMPUTE, VOLUME, IMAGE, SHARE = "/compute/v2.1", "/volume/v3", "/image/v2", "/share/v2"


class Meddler(Protocol):
    """Stands between the control plane and all that it calls."""

    async def pass_on(self, call: Call) -> Any:
        """Deliver a call, or not; return its answer, or raise `call.lost()`."""
        ...


class Call(Struct):
    """One call between services, or to a host."""

    what: str
    forward: Callable[[], Awaitable[Any]]
    """Delivers it; may be called again, and later."""
    lost: Callable[[], Exception]
    at: str = ""
    """The host that is called; empty between services."""
    operation: str = ""
    """What it is a part of, as its header says; empty for one that only looks."""


class StandIn(Protocol):
    """Answers for a part of a service that a scenario does without."""

    def answer(self, method: str, path: str, content: bytes) -> tuple[int, bytes] | None:
        """Answer a request with status and body, or leave it to the service."""
        ...

    async def see(self, site: Site) -> dict[str, list[str]]:
        """Return what it holds, by kind, as a snapshot shows it."""
        ...

    async def complaints(self, site: Site) -> list[str]:
        """Return what does not agree with it."""
        ...


class Site:
    """A cloud with names for what was arranged in it. Paths hold names in braces: `{server}`."""

    def __init__(self, cloud: SimulatedCloud, names: dict[str, str] | None = None) -> None:
        self.cloud, self.names = cloud, names or {}
        self.meddler: Meddler | None = None
        self.is_plain = False
        """Whether the volume service knows no operations, as a real Cinder."""
        self.stand_in: StandIn | None = None
        self.diary: list[str] = []
        """What was asked for, in the order of the answers, for whoever reads why a law failed."""
        self._refusals: list[tuple[str, re.Pattern[str], bool]] = []
        self._silenced = ("", "", b"")
        self._unwilling: set[tuple[str, str, str]] = set()
        cloud.deliver, cloud.deliver_to_host = self._deliver, self._deliver_to_host

    @classmethod
    def beside(cls, site: Site, **names: str) -> Site:
        """Return the same site in which some names mean something else."""
        other = object.__new__(cls)
        other.__dict__.update(site.__dict__, names={**site.names, **names})
        return other

    async def ask(
        self, method: str, path: str, body: Any = None, *, user: str = "demo", version: str = ""
    ) -> Answer | None:
        """Send a request while sagas move; None when a process died before the answer came."""
        where, asked_at = path.format(**self.names), self.cloud.clock.now()
        answer = await self.cloud.do(method, where, body, user=user, version=version)
        status = answer.status if answer else "no answer"
        sent = "" if body is None else repr(body)[:_BRIEF]
        self.diary.append(f"{asked_at:%H:%M:%S.%f} {user} {method} {where} {sent}: {status}")
        return answer

    async def get(self, method: str, path: str, body: Any = None, **how: Any) -> Any:
        """Send a request that must go well, let everything rest, and return the answer's body."""
        answer = await self.ask(method, path, body, **how)
        assert answer is not None
        assert answer.status < 300, (method, path, answer.status, answer.body)
        await self.cloud.settle()
        return answer.body

    def refuse_once(self, method: str, path: str, *, is_busy: bool = False) -> None:
        """Let the next call whose path matches be answered 400: a refusal for good.

        One that is busy answers 409 instead, and says that this will pass.
        """
        self._refusals.append((method, re.compile(path), is_busy))

    def silence(self, method: str, path: str, words: bytes) -> None:
        """Let every call to a host be lost whose path ends so and whose body has these words."""
        self._silenced = (method, path, words)

    def refuse_at(self, host: str, method: str, path: str) -> None:
        """Let a host refuse a call for good, whenever it comes; "*" in the path is anything."""
        self._unwilling.add((host, method, path.format(**self.names)))

    async def until_waiting(self, name: str) -> None:
        """Let time pass until an operation of this name was tried once, in vain.

        For so long as it takes, or not at all: a law may have seen to it that there is none.
        """
        await self._until(name, lambda waiting: name in waiting)

    async def until_absorbed(self, name: str) -> None:
        """Let time pass until no operation of this name waits any more; for so long as above."""
        await self._until(name, lambda waiting: name not in waiting)

    async def _until(self, name: str, holds: Callable[[set[str]], bool]) -> None:
        # By the rows: a law may have ended every token.
        rests = select(SagaRow.name).where(SagaRow.state.in_({"parked", "locked"}))
        for _ in range(LOOKS):
            store = self.cloud.cloud.stores[name.partition(".")[0]]
            waiting = set(await store.read(lambda tx: tx.execute(rests).scalars().all()))
            if holds(waiting) or self.cloud.probe.crashed or self.cloud.is_still:
                return
            await self.cloud.pass_time(1.0)

    async def _deliver(self, request: Request, forward: Forward) -> Response:
        if request.headers.get("user-agent") != "mooring":
            return await forward(request)
        call = Call(
            f"{request.method} {request.path}",
            lambda: self._serve(request, forward),
            lambda: NoAnswer("A law lost this call."),
            operation=request.headers.get(HEADER.lower(), ""),
        )
        return await (self.meddler.pass_on(call) if self.meddler else call.forward())

    async def _serve(self, request: Request, forward: Forward) -> Response:
        if self.is_plain and request.path.startswith("/volume/"):
            request.headers.pop(HEADER.lower(), None)
            if "/mooring/operations/" in request.path:
                return _answer(404, b'{"itemNotFound": {"message": "Not found."}}')
        if self.stand_in is not None:
            path, content = request.path, request.content
            if (answer := self.stand_in.answer(request.method, path, content)) is not None:
                return _answer(*answer)
        for refusal in self._refusals:
            if request.method == refusal[0] and refusal[1].search(request.path):
                self._refusals.remove(refusal)
                if refusal[2]:
                    busy = _answer(409, b'{"conflictingRequest": {"message": "Not now."}}')
                    busy.headers[BUSY_HEADER.lower()] = "1"
                    return busy
                return _answer(400, b'{"badRequest": {"message": "It will not go."}}')
        return await forward(request)

    async def _deliver_to_host(self, request: HostRequest, forward: HostForward) -> HostResponse:
        body = request.body
        if not isinstance(body, bytes):
            body = b"".join([chunk async for chunk in body])
        whole = HostRequest(request.method, request.target, request.headers, body)
        call = Call(
            f"{whole.method} {whole.target}",
            lambda: self._reach(whole, forward),
            lambda: Unavailable("A law lost this call."),
            request.headers["host"],
            request.headers.get(HEADER.lower(), ""),
        )
        return await (self.meddler.pass_on(call) if self.meddler else call.forward())

    async def _reach(self, request: HostRequest, forward: HostForward) -> HostResponse:
        asked = (request.headers["host"], request.method)
        refused = [path for *who, path in self._unwilling if tuple(who) == asked]
        if any(fnmatchcase(request.target, path) for path in refused):
            body = wire.body_of(Conflict("A law lets the host refuse."))
            return HostResponse(409, body, {"content-type": "application/json"})
        method, path, words = self._silenced
        named = request.method == method and request.target.endswith(path)
        if named and isinstance(request.body, bytes) and words in request.body:
            raise Unavailable("A law keeps the host silent.")
        return await forward(request)


def hints_of(site: Site) -> dict[str, Any]:
    """Return what the request for a server has beside it, so that it is in the site's group."""
    group = site.names.get("group")
    return {"os:scheduler_hints": {"group": group}} if group else {}


def _answer(status: int, body: bytes) -> Response:
    return Response(status, body, {"content-type": "application/json"})


Do = Callable[[Site], Coroutine[Any, Any, Any]]


class Wants(Struct, frozen=True):
    """What a scenario stands on and locks: names of things, with spaces between them."""

    stands: str = ""
    """What stands when the scenario begins."""
    locks: str = ""
    """What of it all the sagas lock that the scenario starts, in whatever service."""
    needs: str = ""
    """What its request names beside that."""
    moves: bool = False
    """Whether it wants a server that can go to another host."""
    waits: bool = False
    """Whether its server was put away, by half or whole, and its volumes wait with it."""
    bare: bool = False
    """Whether it is refused where its volume has a snapshot."""

    def can_meet(self, first: Wants) -> bool:
        """Whether this one can be asked for where the first one is, and wants one lock with it."""
        needs = {*self.locks.split(), *self.needs.split()}
        stands = needs <= {*first.stands.split()} and (first.waits or not self.waits)
        return stands and not self.shares_no_lock(first)

    def shares_no_lock(self, other: Wants) -> bool:
        """Whether neither can be in the other one's way."""
        return {*self.locks.split()}.isdisjoint(other.locks.split())


class Scenario(Struct, frozen=True):
    """How a saga comes about: what stands ready, and what is asked for."""

    name: str
    saga: Saga[Any]
    arrange: Do
    act: Do
    blurred: tuple[str, ...] = ()
    """Kinds of things that are not compared: another operation of the scenario writes them."""
    outlives: tuple[str, ...] = ()
    """Sagas of a neighbour whose refusal the saga goes on without, and leaves what they left."""
    hosts: tuple[str, ...] = ()
    """More hosts than the trials has: for volumes where their names begin as those do, else for
    servers; with a pool behind `#`, one more of a host that it has."""
    comes_again: bool = False
    """Whether a loop begins it, which begins it once more when it came to nothing."""
    host_returns: bool = False
    """Whether a host that is dead answers again once all is over, and pays what it owes."""
    wants: Wants | None = None
    """For the law of two services; None where that leaves it out (`test_across.LEFT_OUT`)."""


def without_operations(seen: dict[str, Any]) -> dict[str, Any]:
    """Return a snapshot that does not tell for which operations a volume service was asked."""
    return {
        kind: sorted(_FOR.sub('"borrowed_for": "*"', row) for row in rows)
        for kind, rows in seen.items()
    }


_FOR = re.compile(r'"borrowed_for": (true|false)')
_DISKS = ("block_devices", "disk_places", "storage", "connections", "disk_sizes", "volumes")
SERVER_OR_NONE = (
    *("error_server", "servers", "guests", "config_drives", "allocations", "consumers"),
    *(*_DISKS, "sound_volumes", "attachments"),
)
"""What differs where a server was reset, or deleted before that."""


class Trial:
    """One scenario on a copy of its own: a `World` of the laws."""

    def __init__(self, scenario: Scenario, site: Site, events: Sequence[Event]) -> None:
        self.scenario, self.site, self.cloud = scenario, site, site.cloud
        self.events = events
        """All that may be told of."""
        self.probe: LawProbe = site.cloud.probe
        self.takes_hosts_along = False
        """Whether the hosts' agents die with the control plane."""
        self.down_s = 0.0
        """How long the processes stay away, in seconds."""
        self.answer: Answer | None = None
        self._since = site.cloud.clock.now()

    async def act(self) -> None:
        self.answer = await self.scenario.act(self.site)
        if self.probe.crashed:
            raise Crash

    async def settle(self) -> None:
        await self.cloud.settle()
        if self.scenario.comes_again and await self.ending(self.scenario.saga) != "done":
            await self.act()
            await self.cloud.settle()
        if self.scenario.host_returns:
            for _ in ("pays", "is seen to have paid"):
                await self.cloud.look_at_hosts()

    async def restart(self) -> None:
        self.cloud.clock.advance(self.down_s)
        await self.cloud.restart(hosts=self.takes_hosts_along)

    async def snapshot(self) -> dict[str, Any]:
        seen = await see(self.cloud, self.site.names)
        if self.site.stand_in is not None:
            seen |= await self.site.stand_in.see(self.site)
        seen = {kind: rows for kind, rows in seen.items() if kind not in self.scenario.blurred}
        return without_operations(seen) if self.site.is_plain else seen

    async def ending(self, saga: Saga[Any]) -> str:
        return await self.cloud.ending(saga, self._since)

    async def complaints(self) -> list[str]:
        unfinished = await history.find_unfinished(self.cloud.cloud.stores["compute"])
        untold = await told.complain(self.cloud, self.events)
        return [*await self.cloud.complaints(), *untold, *unfinished]
