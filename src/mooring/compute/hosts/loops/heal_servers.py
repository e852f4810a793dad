"""Compare servers with guests: one that is off, stands still or runs on by itself is shown so.

So is one that an administrator's reset has shown otherwise than its guest is.

Only servers that no operation holds are touched. What a host has and no server explains is told
to the log, and by `mooring doctor`; nothing is removed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import structlog
from sqlalchemy import select

from mooring.bulkhead import Rounds
from mooring.compute.hosts import hosts
from mooring.compute.power.sagas.power_outcome import STATES
from mooring.compute.servers import states
from mooring.compute.shares import mappings
from mooring.compute.tables import Server
from mooring.errors import MooringError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.servers import Guest
    from mooring.compute.service import Compute

log = structlog.get_logger()

_WITH_MEMORY = frozenset({"active", "paused", "suspended"})
"""vm_states that a server leaves when its host says that its guest is otherwise."""
_WAITING = "resized"
"""One that it does not leave: its user has the word, and it shows its power alone meanwhile."""


async def run(compute: Compute) -> None:
    """Compare again and again, until cancelled; a slow host delays no other."""
    rounds = Rounds()
    try:
        while True:
            await compute.clock.sleep(compute.settings.heal_interval_s)
            rounds.begin(await hosts.find_up(compute), lambda name: _heal_host(compute, name))
    finally:
        await rounds.end()


async def heal_once(compute: Compute) -> None:
    """Compare every host that is up once."""
    await asyncio.gather(*(_heal_host(compute, name) for name in await hosts.find_up(compute)))


async def _heal_host(compute: Compute, host: str) -> None:
    try:
        # Servers first: one that starts after this look is not missed by the guests' list.
        idle = await compute.store.read(lambda tx: _find_idle(tx, compute, host))
        guests = await compute.agents[host].list_servers()
    except MooringError as error:
        log.warning("a host could not be compared", host=host, error=str(error))
        return
    states_seen = {guest.server_id: guest.state for guest in guests}
    others = {
        server_id: (states_seen[server_id], at)
        for server_id, (vm_state, power_state, at) in idle.items()
        if _is_other(vm_state, power_state, states_seen.get(server_id, ""))
    }
    if others:
        await compute.store.write(lambda tx: _sync_power(tx, compute, others))
    await _report_leftovers(compute, host, guests)


def _find_idle(tx: Session, compute: Compute, host: str) -> dict[str, tuple[str, int, datetime]]:
    """Return the servers of a host whose guests should have memory and that nothing holds.

    Each with its vm_state and power_state, and when it was changed last: what changes meanwhile is
    not what the host was asked about.
    """
    query = select(Server.id, Server.vm_state, Server.power_state, Server.updated_at).where(
        Server.host == host,
        Server.vm_state.in_({*_WITH_MEMORY, _WAITING}),
        Server.task_state.is_(None),
        Server.deleted_at.is_(None),
    )
    found = tx.execute(query).all()
    return {
        server_id: (vm_state, power_state, at)
        for server_id, vm_state, power_state, at in found
        if not _is_held(tx, compute, server_id)
    }


def _is_other(vm_state: str, power_state: int, seen: str) -> bool:
    """Whether a server is shown otherwise than its guest is; False where its host has none."""
    if seen not in STATES:
        return False
    of_guest, power = STATES[seen]
    return power != power_state if vm_state == _WAITING else of_guest != vm_state


def _sync_power(tx: Session, compute: Compute, others: Mapping[str, tuple[str, datetime]]) -> None:
    for server_id, (seen, looked_at) in others.items():
        server = tx.get(Server, server_id)
        is_other = server is None or server.updated_at != looked_at or server.deleted_at
        if server is None or is_other or _is_held(tx, compute, server_id):
            continue
        if _is_other(server.vm_state, server.power_state, seen):
            _show(tx, server, seen, compute.clock.now())
            log.info("a guest changed by itself", server=server_id, host=server.host, state=seen)


def _show(tx: Session, server: Server, seen: str, now: datetime) -> None:
    """Show a server as its guest is."""
    vm_state, power_state = STATES[seen]
    if server.vm_state == _WAITING:
        states.change(tx, server.id, now, power_state=power_state)
    else:
        states.settle(tx, server.id, vm_state, power_state, now)
    if vm_state == "stopped":
        mappings.set_status(tx, server.id, ["active"], "inactive", now)


def _is_held(tx: Session, compute: Compute, server_id: str) -> bool:
    return bool(compute.sagas.holders(tx, f"server:{server_id}"))


async def _report_leftovers(compute: Compute, host: str, guests: Sequence[Guest]) -> None:
    def find(tx: Session) -> list[str]:
        ids = (guest.server_id for guest in guests)
        return [server_id for server_id in ids if not _is_explained(tx, compute, server_id, host)]

    for server_id in await compute.store.read(find):
        log.warning(
            "a host has a guest without a server; nothing is removed: see what it is",
            host=host,
            server=server_id,
        )


def _is_explained(tx: Session, compute: Compute, server_id: str, host: str) -> bool:
    """Whether a server that lives, or an operation, accounts for a guest on this host."""
    if _is_held(tx, compute, server_id):
        return True
    server = tx.get(Server, server_id)
    return server is not None and server.deleted_at is None and server.host == host
