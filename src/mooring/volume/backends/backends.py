"""Where volumes lie: the pools that hosts report, and what room is left in them.

Source: facts/block_storage.md 11.3.
"""

from __future__ import annotations

import uuid
from collections import Counter
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from sqlalchemy import and_, bindparam, delete, func, or_, select, union_all
from sqlalchemy.orm import Session, aliased

from mooring import pool_choice
from mooring.errors import Conflict, Invalid, NoCapacity
from mooring.fence import debts, forgotten
from mooring.pool_choice import Choice, Reason
from mooring.service import require_unheard
from mooring.store.loaded import Loaded
from mooring.store.prepared import Prepared
from mooring.volume.sums import total_gib
from mooring.volume.tables import (
    BackendRow,
    ReservationRow,
    VolumeRow,
)

if TYPE_CHECKING:
    from mooring.agent_api.client import AgentClient
    from mooring.agent_api.hosts import Host, Pool
    from mooring.saga.define import Run
    from mooring.volume.service import Volume, VolumeSettings

VENDOR = "Mooring"
_NAMESPACE = uuid.UUID("6f0d4f2e-7a0c-5b57-9a31-2b7f0c0d9c11")
_backend_of = Prepared[tuple[str, str | None]](
    select(VolumeRow.backend, VolumeRow.moves_to).where(
        VolumeRow.id == bindparam("of_id"), VolumeRow.backend.is_not(None)
    )
)
_pools = Loaded(BackendRow, order_by=lambda columns: [columns.name])
_pools_to_hold = select(BackendRow).order_by(BackendRow.name).with_for_update()
_held_gib = select(total_gib()).where(VolumeRow.backend == BackendRow.name).scalar_subquery()
_COMES_THERE = and_(VolumeRow.moves_to == BackendRow.name, VolumeRow.moves_to != VolumeRow.backend)
_copies = aliased(VolumeRow)
_grows_in = select(VolumeRow.backend).where(VolumeRow.id == ReservationRow.volume_id)
# What grows counts with the size that it may reach, and what is migrated in both pools; in one
# statement, as `quotas.usage.sum_up`. Not by joins: SQLite would go through all volumes to find
# the few that grow.
_promised = Prepared[tuple[str, int]](
    union_all(
        select(BackendRow.name, _held_gib),
        select(VolumeRow.moves_to, VolumeRow.size_gib).where(
            VolumeRow.moves_to > "",
            VolumeRow.moves_to != VolumeRow.backend,
            # The copy of one in use has a row of its own, which counts there.
            ~select(_copies.id).where(_copies.id == VolumeRow.copy_id).exists(),
        ),
        select(_grows_in.scalar_subquery(), ReservationRow.delta_gib),
    )
)


class Wanted(Struct, frozen=True, kw_only=True):
    """What a new volume asks of a pool. `extra_specs` are those of its type."""

    size_gib: int
    zone: str
    multiattach: bool = False
    extra_specs: dict[str, str] = {}
    pool: str = ""
    """The only pool that will do, by its full name; empty when any may."""
    comes_from: str = ""
    """The pool that the volume is in, which another one must be told apart from."""
    reached_by: str = ""
    """The host that must reach it, of a server that has the volume or gets it; empty is any."""

    @property
    def format(self) -> Literal["", "raw"]:
        """The format that its file must have: a raw one if several servers may write to it."""
        return "raw" if self.multiattach else ""


class Room(Struct, frozen=True):
    """A pool, with the GiB that are promised in it and those that may still be."""

    row: BackendRow
    provisioned_gib: int
    left_gib: float


async def agent_of(run: Run[Volume], host: str) -> AgentClient:
    """Return the agent that has a volume; it was looked at anew if it may be another one by now."""
    agent = run.service.agents[host]
    if run.attempt > 1 or not agent.incarnation:
        await agent.host()
    return agent


def name_of(host: str, pool: Pool) -> str:
    """Return OpenStack's name for a pool: `host@driver#pool`."""
    return f"{host}@{pool.driver}#{pool.name}"


def split(backend: str) -> tuple[str, str, str]:
    """Return (host, driver, pool) of `host@driver#pool`."""
    host, _, rest = backend.partition("@")
    driver, _, pool = rest.partition("#")
    return host, driver, pool


def host_of(tx: Session, volume_id: str) -> str:
    """Return the host whose agent has a volume.

    Raises Conflict for one that lies nowhere yet, or has come to another pool, but not wholly.
    """
    tx.flush()
    found = _backend_of.first(tx, of_id=volume_id)
    if found is None:
        raise Conflict(
            f"Resource conflict: Volume {volume_id} has no storage yet. Try again when it is "
            "available.",
        )
    backend, moves_to = found
    if backend == moves_to:
        raise Conflict(
            f"Resource conflict: Volume {volume_id} has not wholly come to another pool. Try again "
            "when it has; where that takes long, an administrator resets its status.",
            private=f"It is {backend}.",
            busy=True,
        )
    return split(backend)[0]


def note_host(tx: Session, host: Host, zone: str, now: datetime, *, makes: bool) -> bool:
    """Write down what a host has just reported of its pools; whether that was all.

    A pool that is not known is left out unless it `makes` a row of it.
    """
    is_all = True
    for pool in host.pools:
        name = name_of(host.name, pool)
        # No user's: pools are what hosts report.
        row = tx.get(BackendRow, name)
        if row is None and not makes:
            is_all = False
            continue
        if row is None:
            service_id = str(uuid.uuid5(_NAMESPACE, f"{host.name}@{pool.driver}"))
            row = BackendRow(name=name, service_id=service_id, created_at=now)
            row.host, row.driver, row.pool = host.name, pool.driver, pool.name
            row.disabled = False
            tx.add(row)
        row.zone, row.seen_at, row.problem = zone, now, pool.problem
        row.total_gib, row.free_gib = pool.total_gib, pool.free_gib
        row.protocol, row.thin = pool.storage_protocol, pool.thin
        row.multiattach = pool.multiattach
        row.hosts = pool.hosts
        if pool.identity or not pool.problem:
            # One that does not answer is what it was.
            row.identity = pool.identity
    return is_all


def is_up(row: BackendRow, settings: VolumeSettings, now: datetime) -> bool:
    """Whether the pool's host answered lately, and the pool works."""
    return not row.problem and now - row.seen_at <= timedelta(seconds=settings.pool_down_s)


def find_rooms(tx: Session, settings: VolumeSettings, *, hold: bool = False) -> list[Room]:
    """Return every pool with what is left in it; `hold`: nobody gives it away meanwhile."""
    rows = tx.execute(_pools_to_hold).scalars() if hold else _pools.all(tx)
    tx.flush()
    promised = Counter[str]()
    for name, size_gib in _promised.all(tx):
        promised[name] += size_gib
    return [_room(row, promised[row.name], settings) for row in rows]


def find(tx: Session, name: str, settings: VolumeSettings, now: datetime) -> BackendRow:
    """Return the pool of this full name. Raises Invalid when there is none, or it does not work."""
    # No user's: pools are what hosts report.
    row = tx.get(BackendRow, name)
    if row is None or not is_up(row, settings, now):
        what = "none" if row is None else "one that does not work now"
        raise Invalid(
            f"Invalid input received: There must be a pool {name}, and there is {what}. Nothing "
            "was changed; `openstack volume backend pool list` has the names.",
        )
    return row


def check_growth(
    tx: Session, name: str, delta_gib: int, settings: VolumeSettings, now: datetime
) -> None:
    """Raise NoCapacity unless a pool works and has room for a growth that is reserved already.

    The error says what speaks against the pool as it is said of those of a new volume, unnamed.
    """
    against: dict[Reason, int] = {}
    for room in find_rooms(tx, settings):
        if room.row.name != name:
            continue
        reason = _find_against_growth(room, delta_gib, settings, now)
        if reason is None:
            return
        against[reason] = 1
    choice = Choice[Room](None, against)
    raise NoCapacity(
        f"The pool of the volume cannot give {delta_gib} GiB more now. The volume stays as it was. "
        f"{choice.explain()}",
        private=f"It is {name}.",
    )


def _find_against_growth(
    room: Room, delta_gib: int, settings: VolumeSettings, now: datetime
) -> Reason | None:
    row = room.row
    free = row.free_gib * (settings.oversubscription_ratio if row.thin else 1.0)
    return pool_choice.first(
        (
            (now - row.seen_at > timedelta(seconds=settings.pool_down_s), pool_choice.SILENT),
            (bool(row.problem), pool_choice.BROKEN),
            (room.left_gib < 0 or free < delta_gib, pool_choice.without_room("volume")),
        )
    )


def capabilities(room: Room, settings: VolumeSettings, now: datetime) -> dict[str, Any]:
    """Return what a pool says of itself, under upstream's keys; types compare with these.

    One is ours: `reached_by`, the hosts that may have its volumes, None for every host.
    """
    row = room.row
    return {
        "volume_backend_name": row.pool,
        "vendor_name": VENDOR,
        "driver_version": "1.0",
        "storage_protocol": row.protocol,
        "pool_name": row.pool,
        "total_capacity_gb": round(row.total_gib, 2),
        "free_capacity_gb": round(row.free_gib, 2),
        "allocated_capacity_gb": room.provisioned_gib,
        "provisioned_capacity_gb": room.provisioned_gib,
        "reserved_percentage": settings.reserved_percentage,
        "max_over_subscription_ratio": str(settings.oversubscription_ratio),
        "thin_provisioning_support": row.thin,
        "thick_provisioning_support": not row.thin,
        "multiattach": row.multiattach,
        "QoS_support": False,
        "reached_by": row.hosts,
        "backend_state": "up" if is_up(row, settings, now) else "down",
        "timestamp": row.seen_at.replace(tzinfo=None).isoformat(),
    }


def _room(row: BackendRow, provisioned_gib: int, settings: VolumeSettings) -> Room:
    usable = row.total_gib * (1 - settings.reserved_percentage / 100)
    ratio = settings.oversubscription_ratio if row.thin else 1.0
    left = min(usable * ratio - provisioned_gib, row.free_gib * ratio)
    return Room(row, provisioned_gib, left)


def seen(tx: Session) -> dict[str, datetime]:
    """Return when each host with pools has answered last, by its name."""
    newest = func.max(BackendRow.seen_at)
    rows = tx.execute(select(BackendRow.host, newest).group_by(BackendRow.host))
    return {row.host: row[1] for row in rows}


def uses(tx: Session, host: str, *, gone: bool = False) -> list[str]:
    """Return what lies on a host and what it owes, each as `3 volumes`; no debts if it is gone."""
    tx.flush()
    held = (
        select(func.count())
        .select_from(VolumeRow)
        .join(BackendRow, or_(VolumeRow.backend == BackendRow.name, _COMES_THERE))
    )
    volumes = tx.execute(held.where(BackendRow.host == host)).scalar_one()
    owed = 0 if gone else len(debts.owed(tx, host))
    found = {"volumes": volumes, "undone operations that it owes": owed}
    return [f"{count} {what}" for what, count in found.items() if count]


async def forget(volume: Volume, host: str, *, gone: bool = False, heard: datetime | None) -> None:
    """Forget the pools of a host that is taken out, and what it owes if it is gone for good.

    `heard` is when it has answered last, before it was seen to be leaving. Raises Conflict while
    something lies there, Unavailable for a host that has answered since.
    """

    def drop(tx: Session) -> None:
        forgotten.begin(tx)
        of_host = BackendRow.host == host
        # Whoever gives one of them to a volume holds all of them meanwhile.
        tx.execute(select(BackendRow.name).where(of_host).with_for_update()).all()
        require_unheard(host, seen(tx).get(host), heard)
        if found := uses(tx, host, gone=gone):
            raise Conflict(f"Host {host} still has {', '.join(found)}. Delete them first.")
        debts.strike(tx, host)
        tx.execute(delete(BackendRow).where(of_host))

    await volume.store.write(drop)
