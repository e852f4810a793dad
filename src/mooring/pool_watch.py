"""How a service learns of the pools of its hosts, so that what is new finds one with room."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Generic, Protocol, TypeAlias, TypeVar

import structlog
from sqlalchemy.orm import Session

from mooring import first_reports
from mooring.agent_api.client import Agents
from mooring.agent_api.hosts import Host
from mooring.bulkhead import Rounds
from mooring.clock import Clock
from mooring.errors import MooringError
from mooring.store.base import Store
from mooring.store.together import Together

log = structlog.get_logger()
Reports: TypeAlias = Together[Host, None]


class Watching(Protocol):
    """What a service's settings say of it."""

    @property
    def default_zone(self) -> str:
        """The zone of hosts that name none."""
        ...

    @property
    def pool_poll_s(self) -> float:
        """How long it waits between two looks, in seconds."""
        ...


class Watcher(Protocol):
    """A service that looks at hosts."""

    store: Store
    clock: Clock
    agents: Agents

    @property
    def settings(self) -> Watching:
        """What its operator chose."""
        ...


W = TypeVar("W", bound=Watcher)


class NoteHost(Protocol):
    """Writes down what a host says of its pools; whether that was all."""

    def __call__(
        self, tx: Session, host: Host, zone: str, now: datetime, /, *, makes: bool
    ) -> bool: ...


class PoolWatch(Generic[W]):
    """Asks the hosts that have a `role` for their pools.

    `note_host` writes down what a host says, with the zone of those that name none, and tells
    whether that was all: a pool that is not known is left out unless it `makes` a row of it.
    """

    def __init__(self, role: str, note_host: NoteHost) -> None:
        self._role, self._note_host = role, note_host

    async def watch(self, service: W) -> None:
        """Look at all hosts again and again, until cancelled; a slow one delays no other."""
        rounds, reports = Rounds(), self._gather_reports(service)
        try:
            while True:
                rounds.begin(
                    list(service.agents),
                    lambda name: self._look_at(service, name, reports, anew=False),
                )
                await service.clock.sleep(service.settings.pool_poll_s)
        finally:
            await rounds.end()
            await reports.end()

    async def look_once(self, service: W) -> None:
        """Ask every host once and write down what they say; one that is silent grows old."""
        reports = self._gather_reports(service)
        await asyncio.gather(*(self._look_at(service, name, reports) for name in service.agents))

    async def look_at(self, service: W, name: str) -> None:
        """Ask one host for its pools; one that fails is logged."""
        await self._look_at(service, name, self._gather_reports(service))

    async def _look_at(self, service: W, name: str, reports: Reports, *, anew: bool = True) -> None:
        try:
            agent = service.agents[name]
            host = await (agent.host() if anew else agent.last_heard())
        except MooringError as error:
            log.info("host does not answer", host=name, error=str(error))
            return
        if self._role not in host.roles:
            return
        try:
            await reports(host)
        except MooringError as error:
            log.warning("pools were not written down", role=self._role, host=name, error=str(error))

    def _gather_reports(self, service: W) -> Reports:
        """Return what writes down what hosts say, that of many in one transaction."""

        def write(tx: Session, reports: Sequence[Host], *, makes: bool) -> list[Host]:
            zone, now = service.settings.default_zone, service.clock.now()
            noted = [self._note_host(tx, host, zone, now, makes=makes) for host in reports]
            return [host for host, is_all in zip(reports, noted, strict=True) if not is_all]

        async def write_down(reports: Sequence[Host]) -> Sequence[None]:
            new = await service.store.write(lambda tx: write(tx, reports, makes=False))
            if new:
                await first_reports.make(service, new, partial(write, makes=True))
            return [None] * len(reports)

        return Together(write_down)
