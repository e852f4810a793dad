"""What follows a move, however it went: see where the guest is, and leave the other host.

So one that has moved and one that stayed are ended by the same steps. What the host that is left
does not let go of stays attached, for an operator: the server is in ERROR then (specs 001).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.agent_api.verbs import DELETE_ARRIVAL
from mooring.compute.groups import affinity
from mooring.compute.hosts import guests, hosts
from mooring.compute.moves import migrations, turns
from mooring.compute.moves.sagas import both_places, claiming, finding, kept_places
from mooring.compute.moves.sagas.move_notes import (
    LiveMigrate,
    Move,
    left,
    left_behind,
)
from mooring.compute.servers import states
from mooring.compute.volumes import disk_places, disks
from mooring.saga.define import Each, Run, Step

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.client import AgentClient
    from mooring.compute.service import Compute

SEND = "send_guest"
"""The step that sends a guest, by whose operation hosts know it."""
POWER = {"active": states.RUNNING, "paused": states.PAUSED}


async def settle_guest(notes: LiveMigrate, run: Run[Compute]) -> LiveMigrate:
    """See that the guest is under way no more, and which host has it; let it run there.

    Raises Unavailable while a host does not tell: nothing is started or destroyed then.
    """
    sending = run.operation.of_step(SEND)
    both = notes.source, notes.destination
    found = await finding.find_guest(run, notes.server_id, both, sending)
    if found.state == "paused" and notes.vm_state == "active":
        await finding.resume(run, found.host, notes.server_id)
    reason = notes.reason or f"The guest of server {notes.server_id} stayed on {notes.source}."
    if found.is_lost:
        reason = (
            f"Neither host {notes.source} nor host {notes.destination} has the guest of server "
            f"{notes.server_id} any more. Reboot the server hard to start it again."
        )
    has_moved = found.host == notes.destination
    return replace(notes, kept=found.host, lost=found.is_lost, reason="" if has_moved else reason)


def place_server(tx: Session, notes: LiveMigrate, run: Run[Compute]) -> None:
    """Say where the server is from now on, and in which zone its host is by now.

    With the very word that it is there it is about to be nowhere else, for its group.
    """
    now = run.now()
    if notes.has_moved:
        host = hosts.find(tx, notes.destination)
        zone = host.zone if host else notes.zone
        states.change(tx, notes.server_id, now, host=notes.destination, zone=zone)
    if notes.group_id:
        affinity.leave_place(tx, notes.server_id)
    migrations.change(tx, notes.migration_id, now, status="post-migrating")
    turns.pass_on(tx, run.service, notes.source)


async def drop_guest(notes: LiveMigrate, run: Run[Compute]) -> None:
    """Remove what the host that is left still has of the guest."""
    if notes.has_moved:
        await guests.destroy(run, notes.source, notes.server_id)
    else:
        await turn_away(notes, run)


async def turn_away(notes: LiveMigrate, run: Run[Compute]) -> None:
    """Have the destination expect the guest no more."""

    async def verb(agent: AgentClient) -> None:
        await agent.delete_arrival(notes.server_id, operation=run.operation)

    path = DELETE_ARRIVAL.target(notes.server_id)
    await guests.take_back(run, notes.destination, path, verb)


async def disconnect_left(notes: Move, item: str, run: Run[Compute]) -> None:
    """Disconnect a volume from the host that is left.

    Where nothing came of the move it connected the volume itself, and is not to do so late.
    """
    operation = None if notes.has_moved else both_places.connecting(run, item)
    await guests.insist(run, disks.leave(run, left_behind(notes, item), operation))


def forget_place(tx: Session, notes: Move, item: str, run: Run[Compute]) -> None:
    """Say that the host that is left has the volume no more."""
    del run
    disk_places.remove(tx, item, notes.left)


def record_end(tx: Session, notes: LiveMigrate, run: Run[Compute]) -> None:
    """Give the server its state back, and say how the move went."""
    now, power = run.now(), POWER[notes.vm_state]
    turns.pass_on(tx, run.service, notes.source)
    if notes.lost:
        states.break_down(tx, notes.server_id, now)
        migrations.change(tx, notes.migration_id, now, status="error")
        return
    states.settle(tx, notes.server_id, notes.vm_state, power, now)
    stayed = "cancelled" if notes.aborted else "error"
    status = "completed" if notes.has_moved else stayed
    migrations.change(tx, notes.migration_id, now, status=status)


_left = disks.Steps(left_behind, insists=True)
LEFT = Each(
    "left",
    left,
    Step("disconnect_left", disconnect_left),
    Step("delete_left", _left.end),
    Step("forget_left", forget_place),
)
"""The volumes at the host that is left."""
LEAVING = (
    Step("settle_guest", settle_guest),
    Step("place_server", place_server),
    Step("drop_guest", drop_guest),
    LEFT,
    Step("settle_claim", claiming.settle_claim),
    Step("record_end", record_end),
)


# -- the bad end -------------------------------------------------------------------------------


BAD_END = (
    Step("find_guest", settle_guest),
    Step("place_found", place_server),
    Step("drop_other", drop_guest),
    Step("hold_places", kept_places.hold_places),
    Step("return_claim", claiming.settle_claim),
    Step("keep_places", kept_places.keep_places),
)
