"""Compare servers with guests: a guest that stopped by itself makes its server SHUTOFF.

Only servers that no operation holds are touched. What a host has and no server explains is told
to the log, and by `mooring doctor`; nothing is removed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import select

from mooring.bulkhead import Rounds
from mooring.compute.hosts import hosts
from mooring.compute.servers import states
from mooring.compute.shares import mappings
from mooring.compute.tables import Server
from mooring.errors import MooringError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.servers import Guest
    from mooring.compute.service import Compute

log = structlog.get_logger()

_STOPPED = frozenset({"stopped", "crashed"})


async def run(compute: Compute) -> None:
    """Compare again and again, until cancelled; a slow host delays no other."""
    rounds = Rounds()
    try:
        while True:
            await compute.clock.sleep(compute.settings.heal_interval_s)
            rounds.begin(await _find_up(compute), lambda name: _heal_host(compute, name))
    finally:
        await rounds.end()


async def heal_once(compute: Compute) -> None:
    """Compare every host that is up once."""
    await asyncio.gather(*(_heal_host(compute, name) for name in await _find_up(compute)))


async def _find_up(compute: Compute) -> list[str]:
    now, down_after_s = compute.clock.now(), compute.settings.host_down_s
    known = await compute.store.read(hosts.find_all)
    return [host.name for host in known if hosts.is_up(host, now, down_after_s)]


async def _heal_host(compute: Compute, host: str) -> None:
    try:
        # Servers first: one that starts after this look is not missed by the guests' list.
        idle = await compute.store.read(lambda tx: _find_idle(tx, compute, host))
        guests = await compute.agents[host].list_servers()
    except MooringError as error:
        log.warning("a host could not be compared", host=host, error=str(error))
        return
    await compute.store.write(lambda tx: _sync_power(tx, compute, idle, guests))
    await _report_leftovers(compute, host, guests)


def _find_idle(tx: Session, compute: Compute, host: str) -> list[str]:
    """Return the servers of a host that should run and that nothing holds."""
    query = select(Server.id).where(
        Server.host == host,
        Server.vm_state == "active",
        Server.task_state.is_(None),
        Server.deleted_at.is_(None),
    )
    return [found for found in tx.execute(query).scalars() if not _is_held(tx, compute, found)]


def _sync_power(
    tx: Session, compute: Compute, idle: Sequence[str], guests: Sequence[Guest]
) -> None:
    states_seen = {guest.server_id: guest.state for guest in guests}
    for server_id in idle:
        server = tx.get(Server, server_id)
        stopped = states_seen.get(server_id) in _STOPPED
        if not stopped or server is None or _is_held(tx, compute, server_id):
            continue
        if server.vm_state == "active" and server.task_state is None:
            now = compute.clock.now()
            states.settle(tx, server_id, "stopped", states.SHUTDOWN, now)
            mappings.set_status(tx, server_id, ["active"], "inactive", now)
            log.info("a guest stopped by itself", server=server_id, host=server.host)


def _is_held(tx: Session, compute: Compute, server_id: str) -> bool:
    return bool(compute.sagas.holders(tx, f"server:{server_id}"))


async def _report_leftovers(compute: Compute, host: str, guests: Sequence[Guest]) -> None:
    for guest in guests:
        wanted = await compute.store.read(
            lambda tx, guest=guest: _is_explained(tx, compute, guest.server_id, host)
        )
        if not wanted:
            log.warning(
                "a host has a guest without a server; mooring doctor --fix removes it",
                host=host,
                server=guest.server_id,
            )


def _is_explained(tx: Session, compute: Compute, server_id: str, host: str) -> bool:
    """Whether a server that lives, or an operation, accounts for a guest on this host."""
    if _is_held(tx, compute, server_id):
        return True
    server = tx.get(Server, server_id)
    return server is not None and server.deleted_at is None and server.host == host
