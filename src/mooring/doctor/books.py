"""What all the databases and hosts say, read at one time, in a form that can be compared."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any
from urllib.parse import parse_qs, urlsplit

from msgspec import Struct
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.agent_api.client import AgentClient, Agents
from mooring.agent_api.hosts import Inventory
from mooring.agent_api.verbs import DISCONNECT
from mooring.config import Settings
from mooring.doctor import elsewhere
from mooring.errors import MooringError, Unavailable
from mooring.limits import DOCTOR_HOST_S
from mooring.saga.define import REGISTRY
from mooring.saga.tables import LockRow, SagaRow
from mooring.services import SERVICES
from mooring.store.base import Store


class Work(Struct, frozen=True):
    """An operation that has not ended. `held` are the keys it holds or waits for."""

    id: str
    service: str
    name: str
    version: int
    stuck: bool
    held: tuple[str, ...]

    @property
    def is_known(self) -> bool:
        """Whether this release has its definition."""
        return (self.name, self.version) in REGISTRY


class Owed(Struct, frozen=True):
    """What one host has still to undo."""

    deletions: frozenset[str]
    """The paths that it is to DELETE, whatever their queries say."""
    ends: frozenset[str]
    """The attachments that it is to let go of with something else."""


class Books(Struct, dict=True):
    """One look at everything. Rows are plain dictionaries, by id.

    What is here between `at` and `work` are the pages that services declare. What is looked up for
    each row is put in order once, so that a look takes as long as there are rows, and no longer.
    """

    at: datetime
    servers: dict[str, dict[str, Any]]
    devices: dict[str, dict[str, Any]]
    """Each with its `places`, and the `attachment_id` of the one at which its server runs."""
    server_shares: dict[str, dict[str, Any]]
    """Each with its `places`: the hosts that are let in."""
    hosts: dict[str, dict[str, Any]]
    fencings: dict[str, dict[str, Any]]
    """How each host was fenced last, or is being fenced, by its name."""
    debts: dict[str, dict[str, Any]]
    """What hosts that were forced down have still to undo: nobody else is to see to that."""
    moves: dict[str, dict[str, Any]]
    """Servers on their way, and those that may go back: what placement holds for them besides."""
    volumes: dict[str, dict[str, Any]]
    attachments: dict[str, dict[str, Any]]
    snapshots: dict[str, dict[str, Any]]
    backups: dict[str, dict[str, Any]]
    stored_backups: dict[str, dict[str, Any]]
    """What the store of backups has; by "" the `problem` that kept it from being looked at."""
    exports: dict[str, dict[str, Any]]
    """Made by the calls that know no attachment."""
    reservations: dict[str, dict[str, Any]]
    """What growing volumes may take besides."""
    volume_pools: dict[str, dict[str, Any]]
    """By their full names."""
    shares: dict[str, dict[str, Any]]
    share_exports: dict[str, dict[str, Any]]
    share_rules: dict[str, dict[str, Any]]
    share_locks: dict[str, dict[str, Any]]
    share_snapshots: dict[str, dict[str, Any]]
    share_reservations: dict[str, dict[str, Any]]
    """What growing shares may take besides."""
    images: dict[str, dict[str, Any]]
    uploads: dict[str, dict[str, Any]]
    """Who receives an image's data, by the image's id."""
    allocations: dict[str, dict[str, int]]
    """Amounts by consumer and resource class."""
    work: list[Work]
    inventories: dict[str, Inventory]
    silent: dict[str, str]
    """Hosts that could not be asked, and why."""
    elsewhere: frozenset[str] = frozenset()
    """Services that the catalogue has from somebody else: our rows of them say nothing."""

    def may_compare(self, *services: str) -> bool:
        """Whether what these services say can be held against each other."""
        return self.elsewhere.isdisjoint(services)

    @cached_property
    def living(self) -> frozenset[str]:
        """The ids of the operations that have not ended."""
        return frozenset(work.id for work in self.work)

    @cached_property
    def held(self) -> frozenset[str]:
        """The keys that operations hold or wait for."""
        return frozenset(key for work in self.work for key in work.held)

    @cached_property
    def owed(self) -> dict[str, Owed]:
        """What hosts have still to undo, by their names."""
        return {
            host: _owed_of([str(row["resource"]) for row in rows])
            for host, rows in grouped(self.debts.values(), "host").items()
        }

    @cached_property
    def devices_by_server(self) -> dict[str, list[dict[str, Any]]]:
        """What servers have as block devices, by their ids."""
        return grouped(self.devices.values(), "server_id")

    @cached_property
    def moves_by_server(self) -> dict[str, list[dict[str, Any]]]:
        """The moves of servers that have not ended, by the ids of their servers."""
        return grouped(self.moves.values(), "server_id")

    @cached_property
    def attachments_by_volume(self) -> dict[str, list[dict[str, Any]]]:
        """All attachments, by the ids of their volumes."""
        return grouped(self.attachments.values(), "volume_id")

    @cached_property
    def placed(self) -> frozenset[str]:
        """The attachments by which a server has a volume anywhere."""
        places = (place for device in self.devices.values() for place in device["places"])
        return frozenset(place["attachment_id"] for place in places if place["attachment_id"])

    @cached_property
    def copies(self) -> dict[str, dict[str, Any]]:
        """Volumes, by the id of what is to be their storage once it has their data."""
        volumes = self.volumes.values()
        return {row["copy_id"]: row for row in volumes if row["copy_id"] is not None}

    @cached_property
    def exports_by_share(self) -> dict[str, list[dict[str, Any]]]:
        """Where shares are exported, by their ids."""
        return grouped(self.share_exports.values(), "share_id")

    @cached_property
    def rules_by_share(self) -> dict[str, list[dict[str, Any]]]:
        """Who is let in to shares, by their ids."""
        return grouped(self.share_rules.values(), "share_id")

    @cached_property
    def snapshots_by_share(self) -> dict[str, list[dict[str, Any]]]:
        """Snapshots of shares, by the ids of those."""
        return grouped(self.share_snapshots.values(), "share_id")

    @cached_property
    def identities(self) -> dict[tuple[str, str], str]:
        """What pools of volumes call themselves, by host and pool."""
        pools = self.volume_pools.values()
        return {(pool["host"], pool["pool"]): pool["identity"] for pool in pools}

    def waits_for_rebuild(self, device: Mapping[str, Any]) -> bool:
        """Whether a volume may stay reserved: its server is in ERROR until it is rebuilt again."""
        server = self.servers.get(device["server_id"])
        is_failed = server is not None and server["vm_state"] == "error"
        return is_failed and device["state"] == "attached"

    def waits_for_host(self, device: Mapping[str, Any]) -> bool:
        """Whether a volume is kept for a server that was put away, at no host."""
        return any(not place["host"] for place in device["places"])

    def owes(self, host: str, path: str) -> bool:
        """Whether a host has still to DELETE this path, whatever the query says."""
        return path in self.owed.get(host, _NOTHING_OWED).deletions

    def owes_end_of(self, host: str, attachment_id: str) -> bool:
        """Whether a host has still to let go of what it has by an attachment."""
        named = attachment_id in self.owed.get(host, _NOTHING_OWED).ends
        return named or self.owes(host, DISCONNECT.target(attachment_id))

    def is_busy(self, *keys: str) -> bool:
        """Whether an operation that has not ended holds or awaits one of these keys."""
        return not self.held.isdisjoint(keys)


def grouped(rows: Iterable[dict[str, Any]], column: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows in their order, by what stands in a column."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row[column], []).append(row)
    return found


def _owed_of(paths: Iterable[str]) -> Owed:
    deletions, ends = set[str](), set[str]()
    for path in paths:
        deletions.add(path.partition("?")[0])
        ends.update(parse_qs(urlsplit(path).query).get("attachment_id", []))
    return Owed(frozenset(deletions), frozenset(ends))


_NOTHING_OWED = _owed_of(())


async def read(
    stores: Mapping[str, Store], agents: Agents, at: datetime, settings: Settings
) -> Books:
    """Read it all: who names a thing before who has it, and hosts last.

    So what is named was made before the look at it, and what hosts show is never older than rows.
    """
    pages = {
        name: await stores[each.name].read(page)
        for each in reversed(SERVICES)
        for name, page in each.pages.items()
    }
    for each in SERVICES:
        pages |= {name: await look(settings) for name, look in each.keeps.items()}
    busy = [each.name for each in SERVICES if each.take_sagas is not None]
    work = [found for name in busy for found in await _work(stores[name], name)]
    inventories, silent = await _inventories(agents)
    return Books(
        at=at,
        work=work,
        inventories=inventories,
        silent=silent,
        elsewhere=await elsewhere.read(stores),
        **pages,
    )


async def _work(store: Store, service: str) -> list[Work]:
    columns = (SagaRow.id, SagaRow.name, SagaRow.version, SagaRow.stuck)

    def load(tx: Session) -> list[Work]:
        held: dict[str, tuple[str, ...]] = {}
        for saga_id, key in tx.execute(select(LockRow.saga_id, LockRow.key)):
            held[saga_id] = (*held.get(saga_id, ()), key)
        open_ones = tx.execute(select(*columns).where(SagaRow.state != "ended"))
        return [
            Work(saga_id, service, name, version, stuck, held.get(saga_id, ()))
            for saga_id, name, version, stuck in open_ones
        ]

    return await store.read(load)


async def _inventory(agent: AgentClient) -> Inventory:
    """Ask a host that answers. Raises Unavailable for one that is silent.

    Its inventory may take long, for a guest that hangs. Its heartbeat does not.
    """
    try:
        async with asyncio.timeout(DOCTOR_HOST_S):
            await agent.last_heard()
    except TimeoutError as error:
        message = f"It did not answer within {DOCTOR_HOST_S:g} s."
        raise Unavailable(message, private=repr(error)) from error
    return await agent.inventory()


async def _inventories(agents: Agents) -> tuple[dict[str, Inventory], dict[str, str]]:
    names = list(agents)
    asked = (_inventory(agents[name]) for name in names)
    answers = await asyncio.gather(*asked, return_exceptions=True)
    found: dict[str, Inventory] = {}
    silent: dict[str, str] = {}
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, MooringError):
            silent[name] = answer.public
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found[name] = answer
    return found, silent
