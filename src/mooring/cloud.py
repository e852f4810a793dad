"""A whole control plane: all services in one process, that see only each other's APIs.

Whoever builds a cloud hands it the outside: where the databases are, the clock, the probe, the
network and the agents. `mooring up` hands it the real ones, the tests simulated ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import structlog
from msgspec import Struct

from mooring import access, health_app, installation
from mooring.clients.identity import Login, ServiceUser
from mooring.clients.session import Session
from mooring.clients.transport import Network
from mooring.clients.webhook import WebhookTarget
from mooring.doctor import app as doctor_app
from mooring.errors import Bug, MooringError
from mooring.fleet import app as fleet_app
from mooring.fleet import removal
from mooring.fleet.fleet import Fleet, open_fleet
from mooring.fleet.removal import Tenant
from mooring.host_fence import CommandFence, HostFence
from mooring.identity.keys import TOKEN_KEYS, new_keys
from mooring.identity.tokens import LocalValidator
from mooring.limits import LOOP_REST_S
from mooring.metrics import app as metrics_app
from mooring.notify.deliverer import Deliverer
from mooring.notify.outbox import Outbox
from mooring.notify.targets import LogTarget, Target
from mooring.saga.engine import Engine
from mooring.saga.seal import Sealer, load_sealer
from mooring.secret_file import remove_unfinished
from mooring.service import COMMON_BOUNDS, HostUses, Loop, Service, Surroundings
from mooring.services import FLEET, IDENTITY, SERVICES
from mooring.store.base import Store, open_store
from mooring.store.growth import Bound, keep_pruned, prune
from mooring.web.app import Served, mount
from mooring.web.audit import FILE as AUDIT_FILE
from mooring.web.audit import AuditLog
from mooring.web.request_times import RequestTimes

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from mooring.agent_api.client import Agents
    from mooring.clients.token import TokenValidator
    from mooring.clock import Clock
    from mooring.config import Settings
    from mooring.probe import Probe

log = structlog.get_logger()
S = TypeVar("S", bound=Served)
_SessionOf: TypeAlias = Callable[[str, str], Session]


class Keystone(Struct):
    """An identity service that is not opened here: who calls, and how our services call others."""

    validator: TokenValidator
    session: _SessionOf
    """Gives the way from one service to another, as the first one's own user."""


class Outside(Struct, kw_only=True):
    """What a cloud stands in. `owner` names this process among others on the same databases."""

    settings: Settings
    public_url: str
    agents: Agents
    clock: Clock
    random: Random
    probe: Probe
    owner: str
    network: Network
    joins_at: str = ""
    """Where hosts on other machines join, as they reach it; empty: there are none."""
    slots: int = 16
    inline: bool = False
    """Run SQLite on the event loop itself: for tests, whose order must not depend on threads."""
    host_fence: HostFence | None = None
    """What ends hosts for certain; None: the command that the settings name."""
    keystone: Keystone | None = None
    """Stands for identity where that is not among the services to open."""


class Cloud:
    """A control plane that is open. `run` works until `stop`; `close` lets go of everything."""

    def __init__(
        self, outside: Outside, services: Sequence[Service[Any]], stores: Mapping[str, Store]
    ) -> None:
        self.outside, self.services, self.stores = outside, services, stores
        self.engines: dict[str, Engine[Any]] = {}
        self.deliverers: dict[str, Deliverer] = {}
        self.requests = RequestTimes()
        self.apps: dict[str, ASGIApp] = {}
        self.app: ASGIApp = mount({}, _nobody)
        self.fleet: Fleet | None = None
        self.audit = AuditLog(outside.settings.state_path / AUDIT_FILE)
        self._opened: dict[str, Any] = {}

    def __getitem__(self, declared: Service[S]) -> S:
        """Return an opened service by its declaration."""
        return self._opened[declared.name]

    def _host_fence(self) -> HostFence:
        settings, given = self.outside.settings, self.outside.host_fence
        return given or CommandFence(settings.fence_command, float(settings.fence_timeout_s))

    def open(self, declared: Service[S], session: _SessionOf, sealer: Sealer) -> S:
        """Make a service, and what runs its sagas and hands its notifications on."""
        outside, name = self.outside, declared.name
        box = Outbox(outside.clock, outside.settings.notifications)
        service = declared.open(
            Surroundings(
                settings=outside.settings,
                store=self.stores[name],
                clock=outside.clock,
                probe=outside.probe,
                owner=outside.owner,
                agents=outside.agents,
                sealer=sealer,
                outbox=box,
                host_fence=self._host_fence(),
                neighbour=lambda other: session(name, other),
            )
        )
        self._opened[name] = service
        if declared.take_sagas is not None:
            engine = _engine(self, name, service, sealer)
            declared.take_sagas(service, engine)
        if declared.notifies:
            _deliver(self, name, box)
        return service

    @property
    def settings(self) -> Settings:
        """What its operator has chosen."""
        return self.outside.settings

    @property
    def agents(self) -> Agents:
        """The hosts that this process knows."""
        return self.outside.agents

    @property
    def clock(self) -> Clock:
        """The time of this cloud."""
        return self.outside.clock

    def loops(self) -> list[tuple[Loop[Any], Any]]:
        """Return what the services do on their own account, each with its service."""
        return [(loop, self[each]) for each in self.services for loop in each.loops]

    async def look_at_hosts(self) -> None:
        """Ask every host once, so that servers and volumes find a place."""
        first = ((loop.once, it) for loop, it in self.loops() if loop.is_first_look)
        await asyncio.gather(*(once(it) for once, it in first if once is not None))

    async def mend(self) -> None:
        """Do now what the loops do from time to time."""
        await self.look_at_hosts()
        for loop, service in self.loops():
            if loop.once is not None and not loop.is_first_look:
                await loop.once(service)

    def _growing(self) -> list[tuple[Any, Store, Clock, Sequence[Bound[Any]]]]:
        """Return what has to be kept small: each service with its database."""
        return [
            (self[each], self.stores[each.name], self.clock, (*COMMON_BOUNDS, *each.bounds))
            for each in self.services
        ]

    async def prune(self) -> int:
        """Take away all rows that are needed no more; return how many went."""
        return sum([await prune(*each) for each in self._growing()])

    async def run(self) -> None:
        """Advance sagas and run the loops of all services until `stop`, or until one fails."""
        work: list[Awaitable[None]] = [engine.run() for engine in self.engines.values()]
        work += [self._keep_up(loop.run, service) for loop, service in self.loops()]
        work += [deliverer.run() for deliverer in self.deliverers.values()]
        work += [self._keep_up(keep_pruned, *each) for each in self._growing()]
        work += [self.fleet.run()] if self.fleet else []
        running = [asyncio.ensure_future(each) for each in work]
        try:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _keep_up(self, run: Callable[..., Awaitable[None]], *on: Any) -> None:
        """Run a loop; one that met trouble, a database that is away say, begins again later."""
        while True:
            try:
                await run(*on)
            except Bug:
                raise
            except MooringError as error:
                log.warning("a loop begins again", loop=run.__module__, reason=str(error))
            await self.clock.sleep(LOOP_REST_S)

    async def stop(self) -> None:
        """Stop advancing sagas at once; the next process goes on with them."""
        await asyncio.gather(*(engine.stop() for engine in self.engines.values()))

    async def close(self) -> None:
        """Stop, and close databases and connections."""
        await self.stop()
        await self.outside.network.aclose()
        for store in self.stores.values():
            await store.close()


async def open_cloud(outside: Outside, services: Sequence[Service[Any]] = SERVICES) -> Cloud:
    """Open databases, take over what a dead predecessor left, and wire the services.

    `services` are those of `mooring.services` that are wanted here, in its order. Without identity
    among them, `outside` names a Keystone.
    """
    settings = outside.settings
    location = settings.database or str(settings.state_path)
    names = [each.name for each in services] + ([FLEET] if outside.joins_at else [])
    opened = await asyncio.gather(
        *(open_store(location, name, probe=outside.probe, inline=outside.inline) for name in names)
    )
    cloud = Cloud(outside, services, dict(zip(names, opened, strict=True)))
    try:
        await _open(cloud)
    except BaseException:
        for store in opened:
            await store.close()
        raise
    return cloud


async def _open(cloud: Cloud) -> None:
    outside, services = cloud.outside, cloud.services
    settings = outside.settings
    await asyncio.to_thread(remove_unfinished, settings.state_path)
    sealer = load_sealer(settings.state_path / installation.SEAL_KEY)
    if IDENTITY.name in cloud.stores:
        await _agree_on_keys(cloud, sealer)
    if FLEET in cloud.stores:
        store = cloud.stores[FLEET]
        cloud.fleet = await open_fleet(store, sealer, outside.agents, outside.clock)
    keystone = outside.keystone or await _open_identity(cloud, sealer)
    for each in services:
        if each is not IDENTITY:
            cloud.open(each, keystone.session, sealer)
    if cloud.fleet is not None:
        cloud.fleet.tenants = tuple(_tenants(cloud))
    await _serve(cloud, keystone.validator)


def _tenants(cloud: Cloud) -> Iterator[Tenant]:
    """Give what has to forget a host before it is out of the cloud."""
    for each in cloud.services:
        if each.host_uses and each.forget_host and each.hosts_seen:
            yield Tenant(
                uses=partial(_uses, cloud.stores[each.name], each.host_uses),
                forget=partial(each.forget_host, cloud[each]),
                seen=partial(cloud.stores[each.name].read, each.hosts_seen),
            )


async def _uses(store: Store, read: HostUses, host: str, *, gone: bool) -> list[str]:
    return await store.read(lambda tx: read(tx, host, gone=gone))


async def _agree_on_keys(cloud: Cloud, sealer: Sealer) -> None:
    """Have the keys of tokens that all processes have. Raises Invalid for a foreign sealer."""
    file = cloud.outside.settings.state_path / TOKEN_KEYS
    own = file.read_bytes() if file.exists() else None
    store = cloud.stores[IDENTITY.name]
    await installation.agree(store, sealer, file, lambda kept: kept or own or new_keys())


async def _open_identity(cloud: Cloud, sealer: Sealer) -> Keystone:
    """Open identity before the others, which call each other as its users."""
    outside, near = cloud.outside, _Neighbours(cloud.outside)
    identity, settings = cloud.open(IDENTITY, near.session, sealer), outside.settings
    near.revision = lambda: identity.revision
    catalogue = {each.kind: each.entry for each in SERVICES}
    near.logins |= await access.ensure(identity, settings, outside.public_url, catalogue, sealer)
    return Keystone(LocalValidator(identity), near.session)


def _deliver(cloud: Cloud, name: str, box: Outbox) -> None:
    """See that a service's notifications reach their targets, if there are any."""
    outside = cloud.outside
    targets: dict[str, Target] = {}
    if "log" in box.targets:
        targets["log"] = LogTarget()
    if "webhook" in box.targets:
        url = outside.settings.notifications_webhook
        targets["webhook"] = WebhookTarget(outside.network, url)
    if box.is_on:
        owner, random = outside.owner, outside.random
        store = cloud.stores[name]
        cloud.deliverers[name] = Deliverer(box, store, targets, owner=owner, random=random)


def _engine(cloud: Cloud, name: str, service: S, sealer: Sealer) -> Engine[S]:
    outside = cloud.outside
    engine = Engine(
        name,
        service,
        cloud.stores[name],
        clock=outside.clock,
        random=outside.random,
        probe=outside.probe,
        sealer=sealer,
        owner=outside.owner,
        slots=outside.slots,
    )
    cloud.engines[name] = engine
    return engine


async def _serve(cloud: Cloud, validator: TokenValidator) -> None:
    """Build every service's application, and let the others reach it without a socket."""
    root = cloud.outside.public_url
    audit = cloud.audit
    for each in cloud.services:
        service, url = cloud[each], f"{root}/{each.name}"
        await each.prepare(service)
        app = each.build(
            service,
            validator=validator,
            public_url=url,
            identity_url=f"{root}/identity/v3",
            times=cloud.requests,
            audit=audit,
        )
        cloud.apps[f"/{each.name}"] = app
        cloud.outside.network.serve(url, app)
    joins_at = cloud.outside.joins_at
    tenants = tuple(_tenants(cloud))
    absent = removal.Absent(
        remove=partial(removal.remove_absent, tenants, cloud.outside.clock),
        seen=partial(removal.seen, tenants),
    )
    hosts = fleet_app.build(cloud.fleet, cloud.agents, validator, joins_at, absent, audit=audit)
    if len(cloud.services) == len(SERVICES):
        # The doctor holds what all services say against each other.
        cloud.apps["/mooring"] = fleet_app.beside(hosts, doctor_app.build(cloud, validator, audit))
    token = metrics_app.ensure_token(cloud.outside.settings.state_path / metrics_app.FILE)
    cloud.apps[metrics_app.PATH] = metrics_app.build(cloud, token)
    cloud.apps["/healthz"] = health_app.build(cloud.engines, cloud.agents.doors)
    sockets = {
        path: build(cloud[each], root, audit)
        for each in cloud.services
        for path, build in each.sockets.items()
    }
    cloud.app = mount(cloud.apps, _nobody, sockets)
    for engine in cloud.engines.values():
        await engine.open()


class _Neighbours:
    """Makes the sessions with which one service calls another, as its own service user."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self.logins: dict[str, Login] = {}
        """Those of the service users, once identity has them."""
        self.revision: Callable[[], int] = lambda: 0
        """Tells how often identity has been changed by this process."""
        self._users: dict[str, ServiceUser] = {}

    def session(self, caller: str, service: str) -> Session:
        network, user = self._outside.network, self._users.get(caller)
        if user is None:
            url, login = f"{self._outside.public_url}/identity/v3", self.logins[caller]
            clock, revision = self._outside.clock, self.revision
            user = ServiceUser(network, url, login, clock=clock, revision=revision)
            self._users[caller] = user
        return Session(network, service=service, catalog=user, credentials=user)


async def _nobody(scope: Any, receive: Any, send: Any) -> None:
    """Answer for paths that belong to no service."""
    from starlette.responses import JSONResponse

    message = f"There is nothing at {scope.get('path', '')}."
    body = {"error": {"code": 404, "title": "Not Found", "message": message}}
    await JSONResponse(body, status_code=404)(scope, receive, send)
