"""What follows a move, however it went: see where the guest is, and leave the other host.

So one that has moved and one that stayed are ended by the same steps. What the host that is left
does not let go of stays attached, for an operator: the server is in ERROR then (specs 001).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from mooring.agent_api.servers import PowerRequest
from mooring.agent_api.verbs import DELETE_ARRIVAL
from mooring.compute.groups import affinity
from mooring.compute.hosts import guests, hosts
from mooring.compute.moves import keeper, migrations, turns
from mooring.compute.moves.sagas import both_places, claiming
from mooring.compute.moves.sagas.move_notes import (
    LiveMigrate,
    Move,
    find,
    items,
    left,
    left_behind,
    there,
)
from mooring.compute.servers import states
from mooring.compute.volumes import disk_places, disks, reservations
from mooring.compute.volumes.old_calls import named
from mooring.errors import MooringError
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Each, Run, Step
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.client import AgentClient
    from mooring.compute.service import Compute
    from mooring.compute.volumes.disks import Disk
    from mooring.fence.operation import Operation

M = TypeVar("M", bound=Move)
SEND = "send_guest"
"""The step that sends a guest, by whose operation hosts know it."""
POWER = {"active": states.RUNNING, "paused": states.PAUSED}


class Found(Struct, frozen=True):
    """The host that has a guest, and how the guest is there; `is_lost`: none has."""

    host: str
    state: keeper.Seen
    is_lost: bool = False


async def settle_guest(notes: LiveMigrate, run: Run[Compute]) -> LiveMigrate:
    """See that the guest is under way no more, and which host has it; let it run there.

    Raises Unavailable while a host does not tell: nothing is started or destroyed then.
    """
    sending = run.operation.of_step(SEND)
    found = await find_guest(run, notes.server_id, (notes.source, notes.destination), sending)
    if found.state == "paused" and notes.vm_state == "active":
        await resume(run, found.host, notes.server_id)
    reason = notes.reason or f"The guest of server {notes.server_id} stayed on {notes.source}."
    if found.is_lost:
        reason = (
            f"Neither host {notes.source} nor host {notes.destination} has the guest of server "
            f"{notes.server_id} any more. Reboot the server hard to start it again."
        )
    has_moved = found.host == notes.destination
    return replace(notes, kept=found.host, lost=found.is_lost, reason="" if has_moved else reason)


async def find_guest(
    run: Run[Compute], server_id: str, hosts: tuple[str, str], sending: Operation
) -> Found:
    """See that a guest is under way no more from the first host to the second, and who has it.

    `sending` is the operation that sent it, or one that came later.
    """
    source, destination = hosts
    await _stop_sending(run, source, server_id, sending)
    here = await _look(run, source, server_id)
    there = await _look(run, destination, server_id)
    side = keeper.find_keeper(here, there)
    if side == "destination":
        return Found(destination, there)
    return Found(source, here, is_lost=side == "nobody")


async def _stop_sending(
    run: Run[Compute], source: str, server_id: str, operation: Operation
) -> None:
    """See that a guest goes nowhere from its host, now and by no call that comes late."""
    if await guests.is_lost(run, source):
        return

    async def verb(agent: AgentClient) -> None:
        await agent.cancel_departure(server_id, operation=operation)

    await guests.ask(run, source, verb)


async def _look(run: Run[Compute], host: str, server_id: str) -> keeper.Seen:
    """Return what a host holds of a guest."""
    if await guests.is_lost(run, host):
        return "lost"
    guest = await guests.ask(run, host, lambda agent: agent.show_server(server_id))
    return "absent" if guest is None else guest.state


async def resume(run: Run[Compute], host: str, server_id: str) -> None:
    """Let a guest that stands still run on."""
    request = PowerRequest(state="on")

    async def verb(agent: AgentClient) -> None:
        await agent.set_power(server_id, request, operation=run.operation)

    await guests.ask(run, host, verb)


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


async def hold_places(notes: M, run: Run[Compute]) -> M:
    """See which attachments there are at both hosts, and say that they are in use.

    A host whose attachment is gone disconnects the volume.
    """
    moved = {disk.block_device_id: disk for disk in notes.disks}
    gone: list[str] = []
    for item in items(notes):
        disk, other = find(notes, item), there(notes, item)
        made = disk.made or next(iter(await reservations.find_own(run, other)), "")
        moved[item] = replace(disk, made=made)
        for host, attachment_id in ((notes.source, disk.attachment_id), (notes.destination, made)):
            one = disk.at(notes.server_id, host, attachment_id, notes.known)
            if attachment_id and not await disks.hold(run, one):
                gone += [attachment_id] if await _lets_go(notes, item, one, run) else []
    return replace(notes, disks=list(moved.values()), gone=gone)


async def _lets_go(notes: Move, item: str, disk: Disk, run: Run[Compute]) -> bool:
    """Have a host disconnect a volume whose attachment is gone; return whether it did.

    Not the host that has the guest: an administrator took that attachment, and what the guest has
    stays on record until the server is deleted.
    """
    if disk.host == notes.kept:
        return False
    operation = both_places.connecting(run, item) if disk.host == notes.destination else None
    try:
        await disks.leave(run, disk, operation)
    except MooringError as error:
        if is_unavailable(error) and run.attempt < COMPUTE_UNDO_ATTEMPTS:
            raise
        return False
    return True


def keep_places(tx: Session, notes: Move, run: Run[Compute]) -> None:
    """Keep what still is attached at the host that is left, and put the server into ERROR."""
    now = run.now()
    for disk in (find(notes, item) for item in items(notes)):
        known = {place.host for place in disk_places.of_device(tx, disk.block_device_id)}
        both = ((notes.source, disk.attachment_id), (notes.destination, disk.made))
        for host, attachment_id in both:
            if not attachment_id or attachment_id in notes.gone:
                disk_places.remove(tx, disk.block_device_id, host)
            elif host not in known:
                disk_places.add(tx, disk.block_device_id, host, named(attachment_id), now)
    states.break_down(tx, notes.server_id, now)
    states.change(tx, notes.server_id, now, held_vcpus=0, held_memory_mib=0)
    migrations.change(tx, notes.migration_id, now, status="error")
    turns.pass_on(tx, run.service, notes.source)


BAD_END = (
    Step("find_guest", settle_guest),
    Step("place_found", place_server),
    Step("drop_other", drop_guest),
    Step("hold_places", hold_places),
    Step("return_claim", claiming.settle_claim),
    Step("keep_places", keep_places),
)
