"""A cloud in one process: real services and agents, simulated hosts, clock and network.

It has the services that a test chooses, opened as the product opens them; tokens known by name
(`tests/callers.py`) stand for identity where that is not among them. Nothing moves by itself but
what a request or a saga sets going; `settle` lets it all come to rest, turning the clock.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Self, TypeVar

from msgspec.structs import replace
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring import access
from mooring.agent.app import RunningAgent, open_agent
from mooring.agent.settings import AgentSettings, GuestShareSettings, MountSettings, Role
from mooring.agent_api import transport as agent_transport
from mooring.agent_api.client import AgentClient, Agents
from mooring.clients.identity import Login, ServiceUser
from mooring.clients.transport import Deliver, Forward, Network, Request, Response, deliver_once
from mooring.clock import SimulatedClock
from mooring.cloud import Cloud, Outside, open_cloud
from mooring.config import Settings
from mooring.doctor.examine import look
from mooring.neighbour import Application
from mooring.notify import outbox
from mooring.notify.outbox import Notification
from mooring.saga.define import Saga
from mooring.saga.engine import Engine
from mooring.saga.laws import Crash, LawProbe
from mooring.saga.tables import SagaRow
from mooring.service import Service
from mooring.services import IDENTITY, SERVICES
from mooring.store.base import Store
from tests.answers import Answer, encode, version_header
from tests.beginnings import lay_files, lay_schemas
from tests.callers import OwnToken, keystone
from tests.host_fences import SimulatedFence
from tests.pace import HORIZON_S, Pace
from tests.postgres import end_leases

T = TypeVar("T")
URL = "http://cloud"
PATIENCE_S = 0.1
HostDeliver = agent_transport.Deliver
_WHOLE = tuple(f"/{each.name}/" for each in SERVICES)
_ALL: tuple[Role, ...] = ("compute", "volume", "share")


class SimulatedCloud:
    """The cloud of one test, in one directory. It outlives the crashes of its processes."""

    root, user, version = "", "demo", ""
    """Below which path requests are sent, by whom and in which version, unless they tell."""
    is_laid = True
    """Whether it begins where a first start ends, rather than with nothing."""

    def __init__(
        self,
        directory: Path | str,
        *,
        services: Sequence[Service[Any]] = SERVICES,
        stand_ins: Mapping[str, Application] | None = None,
        probe: LawProbe | None = None,
        owner: str = "control",
        database: str = "",
        hosts: Collection[str] = ("h1",),
        roles: Mapping[str, tuple[Role, ...]] | None = None,
        start: datetime | None = None,
        inline: bool = False,
        **settings: Any,
    ) -> None:
        """Make a cloud of `hosts`, each with all roles unless `roles` says otherwise.

        `stand_ins` are served in place of services that are not opened, by their names. `start` is
        when its clock begins; `inline` runs SQLite without threads.
        """
        self.settings = Settings(state_dir=str(directory), database=database, **settings)
        roles = dict.fromkeys(hosts, _ALL) if roles is None else roles
        self.hosts = {name: self._host(at, name, roles[name]) for at, name in enumerate(roles, 1)}
        """What each host is started with; `change_host` changes it."""
        self.services, self.stand_ins, self.inline = services, dict(stand_ins or {}), inline
        self.clock, self.probe = SimulatedClock(start), probe or LawProbe()
        self._is_ordinary = start is None and IDENTITY in services
        self.pace = Pace(self.clock, self.probe, self._engines)
        self.deliver: Deliver = deliver_once
        """Stands before each call between services, and from clients, across restarts."""
        self.deliver_to_host: HostDeliver = agent_transport.deliver_once
        """Stands before each call to a host, across restarts."""
        self.cloud: Cloud
        self.agents: dict[str, RunningAgent] = {}
        self._agent_stack, self.fence = AsyncExitStack(), SimulatedFence()
        self._owner, self._starts = owner, 0
        self._users: dict[str, ServiceUser] = {}
        """Who logs in to identity, if that is open."""
        self._is_up = asyncio.Event()
        """Whether there is a control plane to ask: a client tries until it gets through."""
        self.is_still = False
        """Whether the clock stands while a client waits for an answer."""
        self._former: list[tuple[Cloud, Network, Agents]] = []
        self._sleeping: list[tuple[Cloud, Network, Agents]] = []

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    async def open(self) -> None:
        """Start the hosts, then the control plane."""
        await self.open_hosts()
        await self.open_control()

    async def open_hosts(self) -> None:
        for name, wanted in self.hosts.items():
            self.agents[name] = await self._agent_stack.enter_async_context(open_agent(wanted))

    def _host(self, number: int, name: str, roles: tuple[Role, ...]) -> AgentSettings:
        """Return what a host is started with; each mounts shares from an address of its own."""
        return AgentSettings(
            name=name,
            state_dir=self.settings.state_path / "hosts" / name,
            hypervisor="simulated",
            roles=roles,
            mounts=MountSettings(shares=GuestShareSettings(share_address=f"192.0.2.{number}")),
        )

    async def change_host(self, name: str, **settings: Any) -> None:
        """Let everything die and come back, with one host that is made otherwise."""
        self.hosts[name] = replace(self.hosts[name], **settings)
        await self.restart(hosts=True)

    async def open_control(self) -> None:
        self._is_up.clear()
        self._starts += 1
        known, network = Agents(self.clock), Network()
        network.deliver = self._deliver
        for name, agent in self.agents.items():
            way = agent_transport.InProcess(agent.app, partial(self._deliver_to_host, name))
            known.add(AgentClient(name, way))
        outside = Outside(
            settings=self.settings,
            public_url=URL,
            agents=known,
            clock=self.clock,
            random=Random(self._starts),
            probe=self.probe,
            owner=f"{self._owner}-{self._starts}",
            network=network,
            inline=self.inline,
            host_fence=self.fence,
            keystone=None if IDENTITY in self.services else keystone(network, URL),
        )
        for name, app in self.stand_ins.items():
            network.serve(f"{URL}/{name}", app)
        self.settings.state_path.mkdir(parents=True, exist_ok=True)
        if self.is_laid:
            await self._lay_state()
        self.cloud = await open_cloud(outside, self.services)
        self.network, self.known_agents = network, known
        if IDENTITY in self.services:
            self._know_users()
        self._is_up.set()
        await self.look_at_hosts()

    async def _lay_state(self) -> None:
        """Begin where a first start would end, unless something has begun here already.

        A cloud whose clock begins elsewhere makes its users by itself.
        """
        state, services = self.settings.state_path, [each.name for each in self.services]
        start = _start_whole if self._is_ordinary else None
        if self.settings.database:
            await lay_schemas(self.settings.database, state, services, start)
        else:
            await lay_files(state, services, start)

    def _know_users(self) -> None:
        passwords = json.loads((self.settings.state_path / access.PASSWORDS).read_text())
        url, projects = f"{URL}/identity/v3", {"admin": "admin", "demo": "demo"}
        for name in ("admin", "demo", "compute", "volume"):
            project = projects.get(name, "service")
            login = Login(user_name=name, password=passwords[name], project_name=project)
            self._users[name] = ServiceUser(self.network, url, login, clock=self.clock)

    async def _deliver(self, request: Request, forward: Forward) -> Response:
        return await self.deliver(request, forward)

    async def _deliver_to_host(
        self, host: str, request: agent_transport.Request, forward: agent_transport.Forward
    ) -> agent_transport.Response:
        request.headers["host"] = host
        return await self.deliver_to_host(request, forward)

    async def close(self) -> None:
        await self._close_control()
        await self._agent_stack.aclose()

    async def take_over(self) -> None:
        """Let the control plane sleep where it stands, and another on the same databases begin."""
        self._sleeping.append((self.cloud, self.network, self.known_agents))
        await self.open_control()

    def wake(self) -> None:
        """Let the control planes that slept go on: they do not know that they were succeeded."""
        self._former += self._sleeping
        self._sleeping = []

    async def _close_control(self) -> None:
        self.wake()
        processes = [*self._former, (self.cloud, self.network, self.known_agents)]
        self._former = []
        for cloud, network, agents in processes:
            await cloud.stop()
            network.abandon()
            await agents.close()
            await cloud.close()

    async def restart(self, *, hosts: bool = False) -> None:
        """Let the control plane, and with it the agents if asked, die and come back."""
        self.probe.crashed = False
        names = list(self.cloud.engines)
        await self._close_control()
        if self.settings.database:
            await asyncio.to_thread(end_leases, self.settings.database, names)
        if hosts:
            await self._agent_stack.aclose()
            self._agent_stack, self.agents = AsyncExitStack(), {}
            await self.open_hosts()
        await self.open_control()

    # -- as a client ------------------------------------------------------------------------

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        user: str | None = None,
        version: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send one request; `path` is below `root`, or whole, as `/image/v2/images`, or a link.

        `user` is admin or demo, or the service user compute or volume, who sends a service token;
        without identity, the name of a token, or empty for none. `body` is sent as JSON, unless it
        is bytes, or makes them while it is sent. A header without a value is not sent.
        """
        await self._is_up.wait()
        path = path.removeprefix(URL)
        if not path.startswith(_WHOLE):
            path, version = self.root + path, self.version if version is None else version
        user = self.user if user is None else user
        token = await self.token(user)
        sent = {"x-auth-token": token}
        if user in self._users and user in {"compute", "volume"}:
            sent["x-service-token"] = token
        sent |= version_header(path, version or "")
        sent |= {name.lower(): value for name, value in (headers or {}).items()}
        media, content = encode(body)
        sent.setdefault("content-type", media)
        sent = {name: value for name, value in sent.items() if value}
        response = await self.network.send(Request(method, URL + path, sent, content))
        return Answer(response.status, response.headers, response.body)

    async def token(self, user: str) -> str:
        """Return the token that a user sends."""
        return await self._users.get(user, OwnToken(user)).token()

    async def until_answered(self, asking: asyncio.Task[T]) -> T | None:
        """Wait for an answer while sagas move; None when the process died before it came.

        Raises nothing: a crash is seen by `settle`.
        """
        while not asking.done():
            await self._go_on(asking)
            if self.probe.crashed:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
                return None
        return asking.result()

    async def until(self, event: asyncio.Event, acting: asyncio.Task[Any]) -> bool:
        """Wait for an event while sagas move; False when all is over without it."""
        waiting = asyncio.create_task(event.wait())
        while not (event.is_set() or self.probe.crashed or (acting.done() and self.pace.is_over())):
            await self._go_on(waiting)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return event.is_set()

    async def _go_on(self, asking: asyncio.Task[Any]) -> None:
        """Let sagas run until none can or a task is done, then turn the clock for it."""
        settling = asyncio.create_task(self.pace.run_out())
        await asyncio.wait({asking, settling}, return_when=asyncio.FIRST_COMPLETED)
        settling.cancel()
        await asyncio.gather(settling, return_exceptions=True)
        if self.is_still:
            await asyncio.wait({asking}, timeout=PATIENCE_S)
        elif not (asking.done() or self.probe.crashed):
            await self.pace.let_answer(asking)
            if not (asking.done() or self.probe.crashed):
                await self.pace.turn()

    async def until_done(self, work: Coroutine[Any, Any, None]) -> None:
        """Wait for something while sagas move."""
        await self.until_answered(asyncio.create_task(work))

    async def do(self, *arguments: Any, **how: Any) -> Answer | None:
        """`ask`, with sagas moving meanwhile."""
        return await self.until_answered(asyncio.create_task(self.ask(*arguments, **how)))

    # -- as time ----------------------------------------------------------------------------

    async def settle(self, horizon_s: float = HORIZON_S) -> None:
        """Let everything come to rest. Raises Crash when a process died meanwhile."""
        await self.pace.rest(horizon_s)
        if self.probe.crashed:
            raise Crash

    async def pass_time(self, seconds: float) -> None:
        """Turn the clock whatever is at work, and let those run whose time has come."""
        await self.pace.pass_time(seconds)

    def _engines(self) -> list[Engine[Any]]:
        clouds = [self.cloud, *(former[0] for former in self._former)]
        return [engine for cloud in clouds for engine in cloud.engines.values()]

    async def look_at_hosts(self) -> None:
        """Run once what finds out how the hosts are."""
        await self.cloud.look_at_hosts()

    async def look_around(self) -> None:
        """Run once what every service does on its own account."""
        await self.cloud.mend()

    # -- as the law -------------------------------------------------------------------------

    async def ending(self, saga: Saga[Any], since: datetime) -> str:
        """The outcome of the newest saga of this name that began since then, or empty."""
        store = self.cloud.stores[saga.name.partition(".")[0]]
        query = select(SagaRow.outcome).where(SagaRow.name == saga.name)
        begun = query.where(SagaRow.created_at >= since)
        newest = begun.order_by(SagaRow.created_at.desc(), SagaRow.id).limit(1)
        return await store.read(lambda tx: tx.execute(newest).scalar() or "")

    async def told(self, service: str) -> list[Notification]:
        """What a service has notified of, if the setting `notifications` keeps it."""
        return await self.cloud.stores[service].read(outbox.read)

    def every_store(self) -> Mapping[str, Store]:
        """Return the databases that the doctor reads."""
        return self.cloud.stores

    async def complaints(self) -> list[str]:
        """What the doctor finds, and what has not ended."""
        found = await look(self.every_store(), self.known_agents, self.clock, self.settings)
        lines = (f"{one.resource}: {one.message}" for one in sorted(found))
        return [*lines, *await self.unfinished()]

    async def unfinished(self) -> list[str]:
        """What has not ended."""
        every = [self.cloud.stores[name] for name in self.cloud.engines]
        return [line for store in every for line in await store.read(_unfinished)]


def _unfinished(tx: Session) -> list[str]:
    query = select(SagaRow.name, SagaRow.step, SagaRow.heading, SagaRow.state)
    rows = tx.execute(query.where(SagaRow.state != "ended"))
    return [f"{name} is {state} at {step} ({heading})" for name, step, heading, state in rows]


async def _start_whole(directory: str, database: str) -> None:
    """Start a whole cloud without hosts for the first time, and end it."""
    async with SimulatedCloud(directory, hosts=(), database=database, owner="first"):
        pass
