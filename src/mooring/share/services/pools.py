"""Where shares lie: the pools that hosts report, and which of them gets a new share.

Source: facts/shared_file_systems.md 12.2.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from sqlalchemy import delete, func, select, union_all
from sqlalchemy.orm import Session

from mooring import pool_choice
from mooring.errors import Conflict, NoCapacity
from mooring.fence import debts, forgotten
from mooring.pool_choice import Reason
from mooring.service import require_unheard
from mooring.share.services import matching
from mooring.share.tables import PoolRow, ReservationRow, ShareRow, total
from mooring.store.prepared import Prepared

if TYPE_CHECKING:
    from mooring.agent_api.client import AgentClient
    from mooring.agent_api.hosts import Host
    from mooring.agent_api.shares import SharePool
    from mooring.saga.define import Run
    from mooring.share.service import Share, ShareSettings

VENDOR = "Mooring"
_PROTOCOL = Reason("with another protocol")
_OTHER = Reason("that do not hold its snapshot")
_ZONE = pool_choice.other_zone("share")
_UNFIT = pool_choice.unfit("share")
_ROOM = pool_choice.without_room("share")
_held_gib = select(total(ShareRow.size_gib)).where(ShareRow.pool == PoolRow.name).scalar_subquery()
_grows_in = select(ShareRow.pool).where(ShareRow.id == ReservationRow.share_id)
# What grows counts with the size that it may reach; in one statement, so that a growth that ends
# meanwhile counts once.
_promised = Prepared[tuple[str, int]](
    union_all(
        select(PoolRow.name, _held_gib),
        select(_grows_in.scalar_subquery(), ReservationRow.delta_gib),
    )
)


class Wanted(Struct, frozen=True, kw_only=True):
    """What a new share asks of a pool. `extra_specs` are those of its type."""

    size_gib: int
    protocol: str
    zone: str = ""
    """The availability zone; empty when any will do."""
    extra_specs: dict[str, str] = {}
    pool: str = ""
    """The only pool that will do, by its full name; empty when any may."""


class Room(Struct, frozen=True):
    """A pool, with the GiB that are promised in it and those that may still be."""

    row: PoolRow
    provisioned_gib: int
    left_gib: float


async def agent_of(run: Run[Share], pool: str) -> AgentClient:
    """Return the agent that has a pool; it was looked at anew if it may be another one by now."""
    agent = run.service.agents[split(pool)[0]]
    if run.attempt > 1 or not agent.incarnation:
        await agent.host()
    return agent


def name_of(host: str, pool: SharePool) -> str:
    """Return OpenStack's name for a pool: `host@driver#pool`."""
    return f"{host}@{pool.driver}#{pool.name}"


def split(name: str) -> tuple[str, str, str]:
    """Return (host, driver, pool) of `host@driver#pool`."""
    host, _, rest = name.partition("@")
    driver, _, pool = rest.partition("#")
    return host, driver, pool


def note_host(tx: Session, host: Host, zone: str, now: datetime, *, makes: bool) -> bool:
    """Write down what a host has just reported of its pools; whether that was all.

    A pool that is not known is left out unless it `makes` a row of it.
    """
    is_all = True
    for pool in host.share_pools:
        name = name_of(host.name, pool)
        # No user's: pools are what hosts report.
        row = tx.get(PoolRow, name)
        if row is None and not makes:
            is_all = False
            continue
        if row is None:
            row = PoolRow(name=name, host=host.name, driver=pool.driver, pool=pool.name)
            row.created_at, row.disabled = now, False
            tx.add(row)
        row.zone, row.seen_at, row.problem = zone, now, pool.problem
        row.protocol, row.thin = pool.protocol, pool.thin
        row.total_gib, row.free_gib = pool.total_gib, pool.free_gib
        row.reserved_percent, row.oversubscription = pool.reserved_percent, pool.oversubscription
        row.has_quota, row.extends, row.shrinks = pool.quota, pool.extends, pool.shrinks
        row.has_snapshots, row.from_snapshot = pool.snapshots, pool.from_snapshot
    return is_all


def is_up(row: PoolRow, settings: ShareSettings, now: datetime) -> bool:
    """Whether the pool's host answered lately, and the pool works."""
    return not row.problem and now - row.seen_at <= timedelta(seconds=settings.pool_down_s)


def find_rooms(tx: Session, *, hold: bool = False) -> list[Room]:
    """Return every pool with what is left in it; `hold`: nobody gives it away meanwhile."""
    tx.flush()
    query = select(PoolRow).order_by(PoolRow.name)
    rows = list(tx.execute(query.with_for_update() if hold else query).scalars())
    promised = Counter[str]()
    for name, size_gib in _promised.all(tx):
        promised[name] += size_gib
    return [_room(row, promised[row.name]) for row in rows]


def choose(tx: Session, wanted: Wanted, settings: ShareSettings, now: datetime) -> PoolRow:
    """Return the pool with the most room among those that suit.

    Raises NoCapacity, which counts the pools by what speaks against them.
    """
    choice = pool_choice.choose(
        find_rooms(tx, hold=True), lambda room: _find_reason(room, wanted, settings, now)
    )
    if choice.best is None:
        raise NoCapacity(
            f"No pool can take a {wanted.protocol} share of {wanted.size_gib} GiB. "
            f"{choice.explain()}"
        )
    return choice.best.row


class Growth(Struct, frozen=True):
    """How much a share in a pool is to grow, in GiB."""

    share_id: str
    pool: str
    delta_gib: int


def check_growth(tx: Session, growth: Growth, settings: ShareSettings, now: datetime) -> None:
    """Raise NoCapacity unless a pool works and has room for a growth that is reserved already."""
    name, delta_gib = growth.pool, growth.delta_gib
    for room in find_rooms(tx):
        free = room.row.free_gib * _ratio(room.row)
        fits = room.left_gib >= 0 and free >= delta_gib
        if room.row.name == name and fits and is_up(room.row, settings, now):
            return
    raise NoCapacity(
        f"The pool of share {growth.share_id} cannot give {delta_gib} GiB more now. The share "
        "stays as it was; delete shares or add storage, and try again.",
        private=f"It is {name}.",
    )


def capabilities(room: Room, settings: ShareSettings, now: datetime) -> dict[str, Any]:
    """Return what a pool says of itself, under upstream's keys; types compare with these.

    `online_quota`, `extend_support` and `shrink_support` are ours.
    """
    row = room.row
    return {
        "share_backend_name": row.driver,
        "driver_handles_share_servers": False,
        "vendor_name": VENDOR,
        "driver_version": "1.0",
        "storage_protocol": row.protocol,
        "pool_name": row.pool,
        "total_capacity_gb": round(row.total_gib, 2),
        "free_capacity_gb": round(row.free_gib, 2),
        "allocated_capacity_gb": room.provisioned_gib,
        "provisioned_capacity_gb": room.provisioned_gib,
        "reserved_percentage": row.reserved_percent,
        "reserved_snapshot_percentage": row.reserved_percent,
        "reserved_share_extend_percentage": row.reserved_percent,
        "max_over_subscription_ratio": row.oversubscription,
        "thin_provisioning": row.thin,
        "snapshot_support": row.has_snapshots,
        "create_share_from_snapshot_support": row.from_snapshot,
        "revert_to_snapshot_support": False,
        "mount_snapshot_support": False,
        "online_quota": row.has_quota,
        "extend_support": row.extends,
        "shrink_support": row.shrinks,
        "dedupe": False,
        "compression": False,
        "replication_type": None,
        "replication_domain": None,
        "ipv4_support": True,
        "ipv6_support": True,
        "qos": False,
        "backend_state": "up" if is_up(row, settings, now) else "down",
        "timestamp": row.seen_at.replace(tzinfo=None).isoformat(),
    }


def seen(tx: Session) -> dict[str, datetime]:
    """Return when each host with pools has answered last, by its name."""
    newest = func.max(PoolRow.seen_at)
    rows = tx.execute(select(PoolRow.host, newest).group_by(PoolRow.host))
    return {row.host: row[1] for row in rows}


def uses(tx: Session, host: str, *, gone: bool = False) -> list[str]:
    """Return what lies on a host and what it owes, each as `3 shares`; no debts if it is gone."""
    tx.flush()
    held = select(func.count()).select_from(ShareRow).join(PoolRow, ShareRow.pool == PoolRow.name)
    shares = tx.execute(held.where(PoolRow.host == host)).scalar_one()
    owed = 0 if gone else len(debts.owed(tx, host))
    found = {"shares": shares, "undone operations on shares that it owes": owed}
    return [f"{count} {what}" for what, count in found.items() if count]


async def forget(share: Share, host: str, *, gone: bool = False, heard: datetime | None) -> None:
    """Forget the pools of a host that is taken out, and what it owes if it is gone for good.

    `heard` is when it has answered last, before it was seen to be leaving. Raises Conflict while
    something lies there, Unavailable for a host that has answered since.
    """

    def drop(tx: Session) -> None:
        forgotten.begin(tx)
        of_host = PoolRow.host == host
        # Whoever gives one of them to a share holds all of them meanwhile.
        tx.execute(select(PoolRow.name).where(of_host).with_for_update()).all()
        require_unheard(host, seen(tx).get(host), heard)
        if found := uses(tx, host, gone=gone):
            raise Conflict(f"Host {host} still has {', '.join(found)}. Delete them first.")
        debts.strike(tx, host)
        tx.execute(delete(PoolRow).where(of_host))

    await share.store.write(drop)


def _room(row: PoolRow, provisioned_gib: int) -> Room:
    usable = row.total_gib * (1 - row.reserved_percent / 100)
    ratio = _ratio(row)
    left = min(usable * ratio - provisioned_gib, row.free_gib * ratio)
    return Room(row, provisioned_gib, left)


def _ratio(row: PoolRow) -> float:
    return row.oversubscription if row.thin else 1.0


def _find_reason(
    room: Room, wanted: Wanted, settings: ShareSettings, now: datetime
) -> Reason | None:
    """Return what speaks against a pool; None when nothing does."""
    row = room.row
    has: Mapping[str, Any] = capabilities(room, settings, now)
    zones = matching.zones_of(wanted.extra_specs) or {row.zone}
    is_elsewhere = wanted.zone not in {"", row.zone} or row.zone not in zones
    is_silent = now - row.seen_at > timedelta(seconds=settings.pool_down_s)
    return pool_choice.first(
        (
            (row.protocol != wanted.protocol, _PROTOCOL),
            (wanted.pool not in {"", row.name}, _OTHER),
            (is_elsewhere, _ZONE),
            (row.disabled, pool_choice.DISABLED),
            (is_silent, pool_choice.SILENT),
            (bool(row.problem), pool_choice.BROKEN),
            (not matching.suits(has, wanted.extra_specs), _UNFIT),
            (room.left_gib < wanted.size_gib, _ROOM),
        )
    )
