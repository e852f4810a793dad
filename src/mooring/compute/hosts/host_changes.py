"""What administrators do to hosts: disable, force down, remove (facts/compute.md 12.2)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, UnsetType
from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from mooring.compute.aggregates import membership
from mooring.compute.hosts import fencings, hosts
from mooring.compute.moves import migrations
from mooring.compute.tables import Host, HostDrain, HostFencing, Server
from mooring.errors import Conflict, NotFound
from mooring.fence import debts, forgotten
from mooring.service import require_unheard

if TYPE_CHECKING:
    from mooring.compute.service import Compute


class HostChanges(Struct, frozen=True, kw_only=True):
    """New values of a host; what is UNSET stays. Enabling forgets why it was disabled."""

    disabled: bool | UnsetType = UNSET
    disabled_reason: str | None = None
    forced_down: bool | UnsetType = UNSET


def by_service(tx: Session, service_uuid: str) -> Host:
    """Return a host by the uuid of its service. Raises NotFound."""
    row = tx.execute(select(Host).where(Host.service_uuid == service_uuid)).scalar()
    if row is None:
        raise NotFound(f"Compute service {service_uuid} could not be found.")
    return row


def change(tx: Session, host: Host, changes: HostChanges, now: datetime, *, by: str = "") -> Host:
    """Change a host that was just read in this transaction; `by` is the id of the user who asked.

    One that is forced down already keeps the proof of that. Raises Conflict for a host that is to
    be up again and still owes what others undid for it.
    """
    if changes.forced_down is False:
        hosts.hold(tx, host)
    if changes.disabled is not UNSET:
        host.disabled = changes.disabled
        host.disabled_reason = changes.disabled_reason if changes.disabled else None
    if changes.forced_down is not UNSET:
        owed = [] if changes.forced_down else debts.owed(tx, host.name)
        if owed:
            failed = [f" It could not do {one.verb} {one.resource}: {one.error}" for one in owed]
            raise Conflict(
                f"Host {host.name} still owes {len(owed)} undone operations and stays down. It "
                "pays them as soon as its agent answers; try again then."
                + "".join(told for told, one in zip(failed, owed, strict=True) if one.error),
                status=400,
            )
        if changes.forced_down and not host.forced_down:
            hosts.force_down(host, by=by, why=hosts.SAID_SO, now=now)
        elif not changes.forced_down and host.forced_down:
            _require_paid(tx, host)
            hosts.lift(host, by=by, now=now)
    host.updated_at = now
    tx.flush()
    return host


def _require_paid(tx: Session, host: Host) -> None:
    """Raise Conflict while servers are being evacuated from a host, or it may have their guests."""
    if mine := migrations.evacuated_from(tx, host.name):
        raise Conflict(
            f"Host {host.name} stays down: {len(mine)} servers were evacuated from it, and it may "
            "still have their guests. It ends those as soon as its agent answers; try again then.",
            status=400,
        )


async def remove(compute: Compute, service_id: str, *, by_uuid: bool) -> None:
    """Forget a host and its resource provider. Raises NotFound, Conflict while it is in use.

    The provider goes first: a crash in between leaves a row that can be removed again, not a
    provider that nobody knows.
    """
    host = await compute.store.read(lambda tx: _removable(tx, compute, service_id, by_uuid=by_uuid))
    await compute.placement.delete_provider(host.provider_id)

    def forget(tx: Session) -> None:
        forgotten.begin(tx)
        _drop(tx, _removable(tx, compute, service_id, by_uuid=by_uuid))

    await compute.store.write(forget)


def uses(tx: Session, name: str, *, gone: bool = False) -> list[str]:
    """Return what a host has and owes, each as `3 servers`. One that is gone for good owes nothing.

    Raises Conflict where it is said to be gone, and not known to be dead: it may have guests.
    """
    host = hosts.find(tx, name)
    if gone and host is not None and not host.forced_down:
        raise Conflict(
            f"Host {name} is not known to be dead. Nothing was changed; `mooring host fence "
            f"{name}` ends it, and what it owes may be struck then."
        )
    used = select(func.count()).select_from(Server)
    servers = tx.execute(used.where(Server.host == name, Server.deleted_at.is_(None))).scalar_one()
    owed = 0 if gone else len(debts.owed(tx, name))
    moves = migrations.count_at(tx, name)
    found = {"servers": servers, "moves of servers": moves, "undone operations that it owes": owed}
    found["fences at work"] = int(fencings.lasts(tx, name))
    return [f"{count} {what}" for what, count in found.items() if count]


async def forget(
    compute: Compute, name: str, *, gone: bool = False, heard: datetime | None
) -> None:
    """Forget a host that is taken out of the cloud, and what it owes if it is gone for good.

    `heard` is when it has answered last, before it was seen to be leaving. Raises Conflict while it
    has something, Unavailable for one that has answered since.
    """

    def unused(tx: Session) -> Host | None:
        host = hosts.find(tx, name)
        require_unheard(name, host and host.last_seen_at, heard)
        if found := uses(tx, name, gone=gone):
            raise Conflict(f"Host {name} still has {', '.join(found)}. Delete or move them first.")
        return host

    host = await compute.store.read(unused)
    if host is not None:
        await compute.placement.delete_provider(host.provider_id)

    def drop(tx: Session) -> None:
        forgotten.begin(tx)
        if (row := unused(tx)) is not None:
            _drop(tx, row)
        debts.strike(tx, name)
        # Nothing of them is anywhere any more.
        migrations.end_evacuations(tx, {name}, compute.clock.now())

    await compute.store.write(drop)


def _drop(tx: Session, row: Host) -> None:
    membership.leave_all(tx, row.name)
    tx.execute(delete(HostDrain).where(HostDrain.host == row.name))
    tx.execute(delete(HostFencing).where(HostFencing.host == row.name))
    tx.execute(delete(Host).where(Host.id == row.id))


def _removable(tx: Session, compute: Compute, service_id: str, *, by_uuid: bool) -> Host:
    if by_uuid:
        host = by_service(tx, service_id)
    else:
        found = tx.execute(select(Host).where(Host.id == int(service_id))).scalar()
        if found is None:
            raise NotFound(f"Service {service_id} could not be found.")
        host = found
    used = (
        select(func.count())
        .select_from(Server)
        .where(Server.host == host.name, Server.deleted_at.is_(None))
    )
    servers = tx.execute(used).scalar_one()
    if servers:
        raise Conflict(
            f"Unable to delete compute service of host {host.name}: it hosts {servers} instances. "
            "Delete or move them first."
        )
    if moves := migrations.count_at(tx, host.name):
        raise Conflict(
            f"Unable to delete compute service of host {host.name}: {moves} moves of servers from "
            "it or to it last. Abort them, or wait for their end, first."
        )
    if fencings.lasts(tx, host.name):
        raise Conflict(
            f"Unable to delete compute service of host {host.name}: it is being fenced. Wait for "
            "the end of that first (mooring host fence --status)."
        )
    if hosts.is_up(host, compute.clock.now(), compute.settings.host_down_s):
        raise Conflict(
            f"Unable to delete compute service of host {host.name}: it is up and would come back. "
            "Stop its agent, or force it down, first."
        )
    return host
