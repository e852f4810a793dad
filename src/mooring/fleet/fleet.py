"""The fleet: what a process of the control plane knows of the hosts on other machines."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import structlog

from mooring import certificates
from mooring.agent_api.joining import Joined, JoinRequest, JoinToken, new_secret, write_token
from mooring.agent_api.remote import Place
from mooring.errors import Conflict, MooringError, NotFound
from mooring.fleet import authority, joining, removal, renewal
from mooring.limits import (
    CERTIFICATE_LIFETIME_S,
    CERTIFICATE_LOOK_S,
    CERTIFICATE_RENEW_S,
    FLEET_POLL_S,
)

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

    def __init__(self, store: Store, root: Held, moves: Held, agents: Agents, clock: Clock) -> None:
        self.store, self.clock, self.agents = store, clock, agents
        self.root = root
        """The authority, with its key."""
        self.moves = moves
        """That of what hosts show each other while guests go between them."""
        held = self.held = certificates.hold_control_plane(
            root, clock.now(), CERTIFICATE_LIFETIME_S
        )
        self.door_context = certificates.server_context(held, asks_callers=False)
        """Serves those who join, who have no certificate yet."""
        self._context = certificates.client_context(root.certificate, self.held)
        self.tenants: tuple[Tenant, ...] = ()
        """What has to forget a host that is removed, set by whoever opens the services."""
        self.removing: set[str] = set()
        """Hosts that a request of this process takes out just now."""
        self.in_the_clear: set[str] = set()
        """Hosts whose running guests' memory can be read on the way, as each said last."""
        self._places: dict[str, Place] = {}
        self._looking = asyncio.Lock()

    @property
    def authority(self) -> bytes:
        """The certificate of the authority, PEM."""
        return self.root.certificate

    async def invite(self, name: str, roles: Sequence[str], joins_at: str) -> tuple[str, datetime]:
        """Return a token with which one host may join at `joins_at`, and until when it may.

        Raises Invalid, Conflict when there is a host of this name, OverQuota.
        """
        joining.check_wish(name, roles)
        if self.is_beside(name):
            raise Conflict(
                f"Host {name} runs beside the control plane already. Choose another name."
            )
        secret = new_secret()
        now = self.clock.now()
        until = await self.store.write(lambda tx: joining.invite(tx, name, roles, secret, now))
        root = certificates.fingerprint(self.authority)
        token = JoinToken(address=joins_at, authority=root, host=name, secret=secret)
        return write_token(token), until

    def is_beside(self, name: str) -> bool:
        """Whether a host runs beside the control plane, and has not joined."""
        return name in self.agents and name not in self._places

    async def join(self, asked: JoinRequest) -> Joined:
        """Let a host in. Raises as `joining.join` does."""
        now = self.clock.now()
        answer = await self.store.write(lambda tx: joining.join(tx, self.root, asked, now))
        log.info("a host joined", host=answer.name, address=asked.address)
        await self.look()
        return answer

    async def hosts(self) -> list[HostRow]:
        """Return every host on another machine, by name."""
        return await self.store.read(joining.find_all)

    async def has(self, name: str) -> bool:
        """Whether a host was invited, or has joined."""
        return await self.store.read(lambda tx: joining.find(tx, name)) is not None

    async def host(self, name: str) -> HostRow:
        """Return one host. Raises NotFound."""
        found = await self.store.read(lambda tx: joining.find(tx, name))
        if found is None:
            raise NotFound(f"No host {name} was invited. See mooring host list.")
        return found

    async def certified_s(self) -> dict[str, float]:
        """Return for how many seconds each host's certificate is still valid, by its name."""
        now = self.clock.now()
        return {
            row.name: (certificates.expiry(row.certificate.encode()) - now).total_seconds()
            for row in await self.hosts()
            if row.certificate is not None
        }

    async def look(self) -> None:
        """Know the hosts that have joined, and no longer those that are gone."""
        # An older look must not undo what a newer one has seen.
        async with self._looking:
            await self._compare(await self.store.read(_places))

    async def run(self) -> None:
        """Look again and again, until cancelled: other processes let hosts in and out too."""
        # A removal takes longer than a look, which others count on.
        await asyncio.gather(
            self._again(self.look, FLEET_POLL_S),
            self._again(partial(removal.go_on, self), FLEET_POLL_S),
            self._again(partial(renewal.renew_due, self), CERTIFICATE_LOOK_S),
            self._again(partial(renewal.renew_all_moves, self), CERTIFICATE_LOOK_S),
        )

    async def _again(self, work: Callable[[], Awaitable[None]], pause_s: float) -> None:
        while True:
            try:
                await work()
            except MooringError as error:
                log.warning("the hosts could not be read", error=str(error))
            await self.clock.sleep(pause_s)

    def note_moves(self, name: str, *, in_the_clear: bool) -> None:
        """Know how a host's running guests come and go."""
        (self.in_the_clear.add if in_the_clear else self.in_the_clear.discard)(name)

    def renew_own(self, now: datetime) -> None:
        """Let this process show a new certificate, if its own ends soon."""
        left = certificates.expiry(self.held.certificate) - now
        if left < timedelta(seconds=CERTIFICATE_RENEW_S):
            self.held = certificates.hold_control_plane(self.root, now, CERTIFICATE_LIFETIME_S)
            certificates.renew(self._context, self.held)
            certificates.renew(self.door_context, self.held)

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
        self.in_the_clear.discard(name)
        self.agents.remove(name)
        await client.close()


async def open_fleet(store: Store, sealer: Sealer, agents: Agents, clock: Clock) -> Fleet:
    """Return the fleet of a database, its hosts known. The authority is made when it is missing."""
    root = await authority.ensure(store, sealer, clock)
    moves = await authority.ensure(store, sealer, clock, "moves")
    fleet = Fleet(store, root, moves, agents, clock)
    agents.look = fleet.look
    await fleet.look()
    return fleet


def _places(tx: Session) -> dict[str, Place]:
    return {
        row.name: Place(row.address, row.enrolment)
        for row in joining.find_all(tx)
        if row.status == "joined" and row.address is not None
    }
