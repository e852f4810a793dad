"""Hosts: what their agents last said, whether they are up, and the version that gates compare.

Source: facts/compute.md 12.1 and 12.2. A host is shown as its `nova-compute` service.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import bindparam, func, select

from mooring.compute.tables import Host
from mooring.errors import Conflict
from mooring.store.loaded import Loaded, LoadedAmong
from mooring.store.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from sqlalchemy.orm import Session

    from mooring.agent_api.hosts import Host as Report
    from mooring.compute.service import Compute

log = structlog.get_logger()
SAID_SO = "an administrator said so"
"""Why a host is down that nobody fenced."""
ATTACHMENTS_VERSION = 24
"""From this service version on, hosts speak the attachments flow (specs 001)."""
LEFT_OFF_VERSION = 62
"""From this service version on, hosts leave an evacuated server off (facts/compute.md 12.1)."""
EXTEND_VERSION = 74
"""From this service version on, hosts grow a volume under its guest (specs 000)."""
SHARES_VERSION = 75
"""From this service version on, hosts take over servers with shares (specs 003)."""
_NAMED = 10
"""How many hosts a message names."""

_by_name = Loaded(Host, lambda columns: columns.name == bindparam("of_name"))
_seen_by_name = Loaded(Host, lambda columns: columns.name == bindparam("of_name"), only_looks=True)
_all = Loaded(Host, order_by=lambda columns: [columns.name], only_looks=True)
_of_providers = LoadedAmong(Host, "provider_id")
_names = Prepared(select(Host.name).order_by(Host.name), str)
_zones = Prepared(select(Host.zone).distinct(), str)
_lowest_version = Prepared(
    select(func.coalesce(func.min(Host.version), 0)).where(Host.version > 0), int
)


def find(tx: Session, name: str | None) -> Host | None:
    """Return a host by its name; in a write nobody else changes it until that ends."""
    if name is None:
        return None
    return _by_name.first(tx, of_name=name)


def look(tx: Session, name: str | None) -> Host | None:
    """Return a host by its name, to be seen and not to be changed.

    Who looks at two hosts in one write holds up nobody who looks at them the other way round.
    """
    if name is None:
        return None
    return _seen_by_name.first(tx, of_name=name)


def hold(tx: Session, host: Host) -> None:
    """Have a host's row to oneself for the rest of the transaction, and as it is by now.

    So nobody says that it lives while another one does what only its death allows.
    """
    tx.refresh(host, with_for_update=True)


def find_all(tx: Session) -> list[Host]:
    """Return every host, by name, as `look` does."""
    return _all.all(tx)


def of_providers(tx: Session, provider_ids: Collection[str]) -> list[Host]:
    """Return the hosts that are these resource providers, in no order."""
    return _of_providers.among(tx, provider_ids)


def names(tx: Session) -> list[str]:
    """Return the name of every host, in order."""
    tx.flush()
    return _names.all(tx)


def zones(tx: Session) -> set[str]:
    """Return the availability zones that have a host."""
    tx.flush()
    return set(_zones.all(tx))


def force_down(host: Host, *, by: str, why: str, now: datetime) -> None:
    """Record that a host does nothing any more: who knows that, as a user's id, and why."""
    host.forced_down, host.forced_down_at = True, now
    host.forced_down_by, host.forced_down_why = by, why
    log.warning("a host is forced down", host=host.name, by=by, why=why)


def lift(host: Host, *, by: str, now: datetime) -> None:
    """Let a host be up again, and forget why it was down."""
    host.forced_down, host.forced_down_at, host.lifted_at = False, None, now
    host.forced_down_by, host.forced_down_why = None, None
    log.warning("a host is not forced down any more", host=host.name, by=by)


def is_up(host: Host, now: datetime, down_after_s: float) -> bool:
    """Whether it answered lately and nobody forced it down."""
    return not host.forced_down and now - host.last_seen_at <= timedelta(seconds=down_after_s)


async def find_up(compute: Compute) -> list[str]:
    """Return the names of the hosts that are up now."""
    now, down_after_s = compute.clock.now(), compute.settings.host_down_s
    known = await compute.store.read(find_all)
    return [host.name for host in known if is_up(host, now, down_after_s)]


def status_of(host: Host | None, now: datetime, down_after_s: float) -> str:
    """Return host_status: UP, DOWN, MAINTENANCE, UNKNOWN, or "" without a host."""
    if host is None:
        return ""
    if host.forced_down:
        return "DOWN"
    if host.disabled:
        return "MAINTENANCE"
    return "UP" if is_up(host, now, down_after_s) else "UNKNOWN"


def require_up(tx: Session, name: str | None, now: datetime, down_after_s: float) -> Host:
    """Return a host that is up. Raises Conflict, as an action on a host that is not there does."""
    host = look(tx, name)
    if host is None or not is_up(host, now, down_after_s):
        raise Conflict(
            f"The compute service of host {name} is unavailable at this time. Nothing was changed; "
            "try again when the host is up.",
            host=name,
        )
    return host


def lowest_version(tx: Session) -> int:
    """Return the smallest service version, 0 for none; a dead host counts until it is removed."""
    tx.flush()
    return _lowest_version.first(tx) or 0


def tell_older(tx: Session, version: int, *, but_dead: bool = False) -> str:
    """Return which hosts are older than a service version, by name, for a refusal's message.

    "Hosts h1 (66), h2 (74) are older than service version 75", at most ten of them by name; "" when
    none is. Those that are dead count until they are removed, or all `but_dead` ones do.
    """
    if not 0 < lowest_version(tx) < version:
        return ""
    counted = [host for host in find_all(tx) if not (but_dead and host.forced_down)]
    old = [f"{host.name} ({host.version})" for host in counted if 0 < host.version < version]
    if not old:
        return ""
    more = len(old) - _NAMED
    listed = ", ".join(old[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    one = len(old) == 1
    what = f"Host {listed} is" if one else f"Hosts {listed} are"
    return f"{what} older than service version {version}"


def are_too_old(tx: Session) -> bool:
    """Whether some host is too old for the attachments flow (specs 001)."""
    return 0 < lowest_version(tx) < ATTACHMENTS_VERSION


def require_attachments(tx: Session, *, but_dead: bool = False) -> None:
    """Raise Conflict while some host is too old for the attachments flow (specs 001).

    Hosts that were forced down do not count when all `but_dead` ones do: who takes their servers
    over is not to wait until they are upgraded.
    """
    if older := tell_older(tx, ATTACHMENTS_VERSION, but_dead=but_dead):
        raise Conflict(
            f"{older} and cannot attach volumes this way. Nothing was changed; upgrade or remove "
            "what is too old.",
            lasts=True,
        )


def require_moving_shares(tx: Session) -> None:
    """Raise Conflict while some host is too old to take over servers with shares (specs 003)."""
    if older := tell_older(tx, SHARES_VERSION):
        raise Conflict(
            f"{older} and cannot take over a server with shares. Nothing was changed; upgrade or "
            "remove what is too old, or detach the server's shares.",
            lasts=True,
        )


def report(
    tx: Session, reports: Sequence[Report], zone: str, now: datetime, *, makes: bool
) -> list[Host]:
    """Write down what agents said about their hosts, each of which is named once; return those.

    A host that is not known is left out unless this `makes` a row of it.
    """
    # All are looked for before one is changed: a look writes what was changed before it.
    known = [find(tx, said.name) for said in reports]
    found = [
        _report(tx, said, host, zone, now)
        for said, host in zip(reports, known, strict=True)
        if host is not None or makes
    ]
    tx.flush()
    return found


def _report(tx: Session, said: Report, host: Host | None, zone: str, now: datetime) -> Host:
    """Write down what one said; room that it cannot count now is as large as it was."""
    if host is None:
        host = Host(
            name=said.name,
            service_uuid=str(uuid.uuid4()),
            provider_id=str(uuid.uuid4()),
            zone=zone,
            vcpus=0,
            memory_mib=0,
            disk_gib=0,
            created_at=now,
        )
        tx.add(host)
    host.version, host.incarnation = said.version, said.incarnation
    host.hypervisor, host.accelerator = said.hypervisor, said.accelerator
    host.hypervisor_version, host.ip = said.hypervisor_version, said.ip
    if not said.problem:
        host.vcpus, host.memory_mib, host.disk_gib = said.vcpus, said.memory_mib, said.disk_gib
    host.traits = list(said.traits)
    host.share_address = said.shares.address
    host.mount_bases = {str(name): base for name, base in said.shares.mount_bases.items()}
    host.last_seen_at = host.updated_at = now
    return host


def seen(tx: Session) -> dict[str, datetime]:
    """Return when each host has answered last, by its name."""
    rows = tx.execute(select(Host.name, Host.last_seen_at))
    return {row.name: row.last_seen_at for row in rows}
