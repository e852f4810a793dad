"""The fleet: what a process of the control plane knows of the hosts on other machines."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import structlog

from mooring import certificates
from mooring.agent_api.joining import Joined, JoinRequest, JoinToken, new_secret, write_token
from mooring.agent_api.remote import Place
from mooring.errors import Conflict, MooringError, NotFound
from mooring.fleet import authority, joining, removal
from mooring.limits import CERTIFICATE_LIFETIME_S, FLEET_POLL_S

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

    from mooring.agent_api.client import Agents
    from mooring.certificates import Held
    from mooring.clock import Clock
    from mooring.fleet.removal import Tenant
    from mooring.fleet.tables import HostRow
    from mooring.saga.seal import Sealer
    from mooring.store.base import Store

log = structlog.get_logger()


class Fleet:
    """Lets hosts join, and makes those that have joined known to this process."""

    def __init__(self, store: Store, root: Held, agents: Agents, clock: Clock) -> None:
        self.store, self.clock, self.agents = store, clock, agents
        self._root = root
        held = certificates.hold_control_plane(root, clock.now(), CERTIFICATE_LIFETIME_S)
        self.door_context = certificates.server_context(held, asks_callers=False)
        """Serves those who join, who have no certificate yet."""
        self._context = certificates.client_context(root.certificate, held)
        self.tenants: tuple[Tenant, ...] = ()
        """What has to forget a host that is removed, set by whoever opens the services."""
        self.removing: set[str] = set()
        """Hosts that a request of this process takes out just now."""
        self._places: dict[str, Place] = {}
        self._looking = asyncio.Lock()

    @property
    def authority(self) -> bytes:
        """The certificate of the authority, PEM."""
        return self._root.certificate

    async def invite(self, name: str, roles: Sequence[str], joins_at: str) -> tuple[str, datetime]:
        """Return a token with which one host may join at `joins_at`, and until when it may.

        Raises Invalid, Conflict when there is a host of this name, OverQuota.
        """
        joining.check_wish(name, roles)
        if name in self.agents and name not in self._places:
            raise Conflict(
                f"Host {name} runs beside the control plane already. Choose another name."
            )
        secret = new_secret()
        now = self.clock.now()
        until = await self.store.write(lambda tx: joining.invite(tx, name, roles, secret, now))
        root = certificates.fingerprint(self.authority)
        token = JoinToken(address=joins_at, authority=root, host=name, secret=secret)
        return write_token(token), until

    async def join(self, asked: JoinRequest) -> Joined:
        """Let a host in. Raises as `joining.join` does."""
        now = self.clock.now()
        answer = await self.store.write(lambda tx: joining.join(tx, self._root, asked, now))
        log.info("a host joined", host=answer.name, address=asked.address)
        await self.look()
        return answer

    async def hosts(self) -> list[HostRow]:
        """Return every host on another machine, by name."""
        return await self.store.read(joining.find_all)

    async def host(self, name: str) -> HostRow:
        """Return one host. Raises NotFound."""
        found = await self.store.read(lambda tx: joining.find(tx, name))
        if found is None:
            raise NotFound(f"No host {name} was invited. See mooring host list.")
        return found

    async def look(self) -> None:
        """Know the hosts that have joined, and no longer those that are gone."""
        # An older look must not undo what a newer one has seen.
        async with self._looking:
            await self._compare(await self.store.read(_places))

    async def run(self) -> None:
        """Look again and again, until cancelled: other processes let hosts in and out too."""
        # A removal takes longer than a look, which others count on.
        await asyncio.gather(self._again(self.look), self._again(partial(removal.go_on, self)))

    async def _again(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await self.clock.sleep(FLEET_POLL_S)
            try:
                await work()
            except MooringError as error:
                log.warning("the hosts could not be read", error=str(error))

    async def _compare(self, wanted: dict[str, Place]) -> None:
        for name in [name for name, place in self._places.items() if wanted.get(name) != place]:
            await self._forget(name)
        for name, place in wanted.items():
            if name in self._places:
                continue
            if name in self.agents:
                log.error("two hosts have one name; the nearer one is asked", host=name)
                continue
            self._places[name] = place
            self.agents.remote(name, place, self._context)

    async def _forget(self, name: str) -> None:
        client = self.agents[name]
        del self._places[name]
        self.agents.remove(name)
        await client.close()


async def open_fleet(store: Store, sealer: Sealer, agents: Agents, clock: Clock) -> Fleet:
    """Return the fleet of a database, its hosts known. The authority is made when it is missing."""
    fleet = Fleet(store, await authority.ensure(store, sealer, clock), agents, clock)
    await fleet.look()
    return fleet


def _places(tx: Session) -> dict[str, Place]:
    return {
        row.name: Place(row.address, row.enrolment)
        for row in joining.find_all(tx)
        if row.status == "joined" and row.address is not None
    }
