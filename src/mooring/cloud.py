"""A whole control plane: five services in one process, that see only each other's APIs.

Whoever builds a cloud hands it the outside: where the databases are, the clock, the probe, the
network and the agents. `mooring up` hands it the real ones, the tests simulated ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from mooring import access, health_app
from mooring.clients.compute import ComputeClient
from mooring.clients.identity import Login, ServiceUser
from mooring.clients.image import ImageClient
from mooring.clients.placement import PlacementClient
from mooring.clients.session import Session
from mooring.clients.transport import Network
from mooring.clients.volume import VolumeClient
from mooring.clients.webhook import WebhookTarget
from mooring.compute import app as compute_app
from mooring.compute.hosts.loops import heal_servers, watch_hosts
from mooring.compute.service import Compute, ComputeSettings
from mooring.doctor import app as doctor_app
from mooring.identity import app as identity_app
from mooring.identity.keys import TokenKeys
from mooring.identity.service import Identity
from mooring.identity.tokens import LocalValidator
from mooring.image import app as image_app
from mooring.image.service import Image
from mooring.notify.deliverer import Deliverer
from mooring.notify.outbox import Outbox
from mooring.notify.targets import LogTarget, Target
from mooring.placement import app as placement_app
from mooring.placement.service import Placement
from mooring.saga.engine import Engine
from mooring.saga.seal import Sealer, load_sealer
from mooring.store.base import Store, open_store
from mooring.volume import app as volume_app
from mooring.volume.attachments.loops.settle_borrowed import settle_borrowed, settle_once
from mooring.volume.backends.loops.watch_pools import look_once, watch_pools
from mooring.volume.service import Volume, VolumeSettings
from mooring.web.app import mount

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from mooring.agent_api.client import Agents
    from mooring.clock import Clock
    from mooring.config import Settings
    from mooring.probe import Probe

S = TypeVar("S")
SERVICES = ("identity", "image", "placement", "volume", "compute")


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
    slots: int = 16
    inline: bool = False
    """Run SQLite on the event loop itself: for tests, whose order must not depend on threads."""


class Cloud:
    """A control plane that is open. `run` works until `stop`; `close` lets go of everything."""

    def __init__(self, outside: Outside, stores: Mapping[str, Store]) -> None:
        self.outside, self.stores = outside, stores
        self.engines: dict[str, Engine[Any]] = {}
        self.deliverers: dict[str, Deliverer] = {}
        self.apps: dict[str, ASGIApp] = {}
        self.app: ASGIApp = mount({}, _nobody)
        self.identity: Identity
        self.image: Image
        self.placement: Placement
        self.volume: Volume
        self.compute: Compute

    @property
    def agents(self) -> Agents:
        """The hosts that this process knows."""
        return self.outside.agents

    @property
    def clock(self) -> Clock:
        """The time of this cloud."""
        return self.outside.clock

    async def look_at_hosts(self) -> None:
        """Ask every host once, so that servers and volumes find a place."""
        await asyncio.gather(watch_hosts.look_once(self.compute), look_once(self.volume))

    async def mend(self) -> None:
        """Do now what the loops do from time to time."""
        await self.look_at_hosts()
        await settle_once(self.volume)
        await heal_servers.heal_once(self.compute)

    async def run(self) -> None:
        """Advance sagas and run the loops of all services until `stop`, or until one fails."""
        work: list[Awaitable[None]] = [engine.run() for engine in self.engines.values()]
        loops = [
            watch_hosts.run(self.compute),
            heal_servers.run(self.compute),
            watch_pools(self.volume),
            settle_borrowed(self.volume),
            image_app.run(self.image),
        ]
        work += [deliverer.run() for deliverer in self.deliverers.values()]
        running = [asyncio.ensure_future(each) for each in (*work, *loops)]
        try:
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def stop(self) -> None:
        """Stop advancing sagas at once; the next process goes on with them."""
        await asyncio.gather(*(engine.stop() for engine in self.engines.values()))

    async def close(self) -> None:
        """Stop, and close databases and connections."""
        await self.stop()
        await self.outside.network.aclose()
        for store in self.stores.values():
            await store.close()


async def open_cloud(outside: Outside) -> Cloud:
    """Open databases, take over what a dead predecessor left, and wire the services."""
    settings = outside.settings
    location = settings.database or str(settings.state_path)
    opened = await asyncio.gather(
        *(
            open_store(location, name, probe=outside.probe, inline=outside.inline)
            for name in SERVICES
        )
    )
    cloud = Cloud(outside, dict(zip(SERVICES, opened, strict=True)))
    await _open_services(cloud)
    return cloud


async def _open_services(cloud: Cloud) -> None:
    outside, stores = cloud.outside, cloud.stores
    state, clock = outside.settings.state_path, outside.clock
    sealer = load_sealer(state / "seal.key")
    cloud.identity = Identity(
        store=stores["identity"],
        clock=clock,
        keys=TokenKeys(state / "token-keys"),
        token_lifetime_s=outside.settings.token_lifetime_s,
    )
    logins = await access.ensure(cloud.identity, outside.settings, outside.public_url)
    cloud.image = Image(
        store=stores["image"],
        directory=state / "images",
        clock=clock,
        owner=outside.owner,
        probe=outside.probe,
    )
    cloud.placement = Placement(store=stores["placement"], clock=clock)
    _open_sagas(cloud, _Neighbours(outside, logins), sealer)
    await _serve(cloud)


def _open_sagas(cloud: Cloud, near: _Neighbours, sealer: Sealer) -> None:
    """Make the services that work by sagas and notify of what they do."""
    outside, stores, clock = cloud.outside, cloud.stores, cloud.outside.clock
    cloud.volume = Volume(
        store=stores["volume"],
        images=ImageClient(near.session("volume", "image")),
        compute=ComputeClient(near.session("volume", "compute")),
        agents=outside.agents,
        sealer=sealer,
        clock=clock,
        settings=VolumeSettings(
            extend_completion_version=outside.settings.extend_completion_version,
            extend_deadline_s=float(outside.settings.extend_deadline_s),
        ),
        outbox=Outbox(clock, outside.settings.notifications),
    )
    cloud.compute = Compute(
        store=stores["compute"],
        images=ImageClient(near.session("compute", "image")),
        placement=PlacementClient(near.session("compute", "placement")),
        volumes=VolumeClient(near.session("compute", "volume")),
        agents=outside.agents,
        clock=clock,
        settings=ComputeSettings(
            reimage_timeout_per_gb=float(outside.settings.reimage_timeout_per_gb)
        ),
        outbox=Outbox(clock, outside.settings.notifications),
    )
    cloud.volume.sagas = _engine(cloud, "volume", cloud.volume, sealer)
    cloud.compute.sagas = _engine(cloud, "compute", cloud.compute, sealer)
    _deliver(cloud, "volume", cloud.volume.outbox)
    _deliver(cloud, "compute", cloud.compute.outbox)


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


async def _serve(cloud: Cloud) -> None:
    """Build every service's application, and let the others reach it without a socket."""
    root, validator = cloud.outside.public_url, LocalValidator(cloud.identity)
    await image_app.prepare(cloud.image)
    await volume_app.prepare(cloud.volume)
    await compute_app.prepare(cloud.compute)

    def known(name: str) -> dict[str, Any]:
        url = f"{root}/identity/v3"
        return {"validator": validator, "public_url": f"{root}/{name}", "identity_url": url}

    cloud.apps = {
        "/identity": identity_app.build(cloud.identity, public_url=f"{root}/identity"),
        "/image": image_app.build(cloud.image, **known("image")),
        "/placement": placement_app.build(cloud.placement, **known("placement")),
        "/volume": volume_app.build(cloud.volume, **known("volume")),
        "/compute": compute_app.build(cloud.compute, **known("compute")),
    }
    for prefix, app in cloud.apps.items():
        cloud.outside.network.serve(f"{root}{prefix}", app)
    cloud.apps["/mooring"] = doctor_app.build(cloud, validator)
    cloud.apps["/healthz"] = health_app.build(cloud.engines)
    cloud.app = mount(cloud.apps, _nobody)
    for engine in cloud.engines.values():
        await engine.open()


class _Neighbours:
    """Makes the sessions with which one service calls another, as its own service user."""

    def __init__(self, outside: Outside, logins: Mapping[str, Login]) -> None:
        self._network, url = outside.network, f"{outside.public_url}/identity/v3"
        self._users = {
            name: ServiceUser(self._network, url, login, clock=outside.clock)
            for name, login in logins.items()
        }

    def session(self, caller: str, service: str) -> Session:
        user = self._users[caller]
        return Session(self._network, service=service, catalog=user, credentials=user)


async def _nobody(scope: Any, receive: Any, send: Any) -> None:
    """Answer for paths that belong to no service."""
    from starlette.responses import JSONResponse

    message = f"There is nothing at {scope.get('path', '')}."
    body = {"error": {"code": 404, "title": "Not Found", "message": message}}
    await JSONResponse(body, status_code=404)(scope, receive, send)
