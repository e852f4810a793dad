"""A server with another size or host, until its user has confirmed that or taken it back.

The migration holds the room that it left, its volumes stay at both hosts, and its quota pays for
the larger one of its sizes (specs 001, facts/compute.md 4.9).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.groups import affinity
from mooring.compute.hosts import guest_disks, guests, hosts
from mooring.compute.moves import migrations
from mooring.compute.moves.sagas import (
    claiming,
    kept_places,
    root_disk,
    sharing,
    switching,
)
from mooring.compute.moves.sagas.kept_places import DID_NOT_START
from mooring.compute.moves.sagas.move_notes import ColdMove
from mooring.compute.servers import states
from mooring.compute.tables import Server
from mooring.saga.define import Step

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.flavors.sizes import Size
    from mooring.compute.service import Compute
    from mooring.saga.define import Run

POWER = {"active": states.RUNNING, "stopped": states.SHUTDOWN}


def held_besides(has: Size | Server, other: Size) -> dict[str, int]:
    """Return what the larger of two sizes takes more than `has`, as columns of a server."""
    return {
        "held_vcpus": max(other.vcpus - has.vcpus, 0),
        "held_memory_mib": max(other.memory_mib - has.memory_mib, 0),
    }


def give_back(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    """Give the server its state back: it never left."""
    if notes.reverted:
        states.move(tx, notes.server_id, None, run.now())
        migrations.change(tx, notes.migration_id, run.now(), status=migrations.FINISHED)
        return
    nothing = {"held_vcpus": 0, "held_memory_mib": 0}
    states.change(tx, notes.server_id, run.now(), task_state=None, **nothing)
    if notes.group_id:
        affinity.leave_place(tx, notes.server_id)
    where = notes.last_destination
    migrations.change(tx, notes.migration_id, run.now(), status="error", destination=where)


def place_server(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    """Say where the server is from now on, and its size."""
    if not notes.has_moved:
        return
    now, host = run.now(), hosts.find(tx, notes.destination)
    values = notes.size.columns() | held_besides(notes.size, notes.former)
    if notes.reverted:
        values |= {"held_vcpus": 0, "held_memory_mib": 0}
    zone = host.zone if host else notes.zone
    states.change(tx, notes.server_id, now, host=notes.destination, zone=zone, **values)
    if notes.group_id and not notes.reverted:
        affinity.keep_place(tx, notes.server_id, notes.source)


async def drop_guest(notes: ColdMove, run: Run[Compute]) -> None:
    """Remove what the host that is left still has of the guest; its volumes stay connected.

    So does its disk, until the server cannot go back to it any more.
    """
    if not notes.has_moved:
        return
    if notes.goes_with_disk and not notes.reverted:
        await guests.destroy(run, notes.source, notes.server_id, keeps_disks=True)
    elif not notes.stays:
        await guests.destroy(run, notes.source, notes.server_id)
    elif notes.exchanges_disk and notes.reverted:
        await guest_disks.forget_kept(run, notes.source, notes.server_id)


async def settle_claim(notes: ColdMove, run: Run[Compute]) -> None:
    """Hold room on the host where the server is, and on the one to which it may go back."""
    if notes.has_moved == bool(notes.reverted):
        await claiming.return_claim(notes, run)


def record_end(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    """Give the server its state, and say how the move went."""
    now = run.now()
    if bool(notes.reverted) == notes.has_moved:
        ended = "reverted" if notes.reverted else "error"
        _settle(tx, notes, run, notes.reverted or notes.vm_state, ended)
        return
    power = POWER[notes.reverted or notes.vm_state]
    states.settle(tx, notes.server_id, "resized", power, now)
    migrations.change(tx, notes.migration_id, now, status=migrations.FINISHED)


def record_confirmed(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    """Say that the server cannot go back any more; a guest that shut itself down is stopped."""
    is_off = tx.get_one(Server, notes.server_id).power_state == states.SHUTDOWN
    _settle(tx, notes, run, "stopped" if is_off else notes.vm_state, "confirmed")


def _settle(tx: Session, notes: ColdMove, run: Run[Compute], vm_state: str, ended: str) -> None:
    """End it all: there is one size, and one host."""
    now, nothing = run.now(), {"held_vcpus": 0, "held_memory_mib": 0}
    states.settle(tx, notes.server_id, vm_state, POWER[vm_state], now, **nothing)
    if notes.lost:
        states.break_down(tx, notes.server_id, now)
    migrations.change(tx, notes.migration_id, now, status=ended)
    if notes.group_id:
        affinity.leave_place(tx, notes.server_id)


# -- the bad end -------------------------------------------------------------------------------


async def end_elsewhere(notes: ColdMove, run: Run[Compute]) -> None:
    """See that no other host has anything of the guest, and that nothing of it comes late.

    The server goes back to no other disk any more.
    """
    if notes.has_moved and not notes.stays:
        await guests.destroy(run, notes.source, notes.server_id)
    elif notes.has_moved:
        await root_disk.forget(notes, run)
    elif notes.destination and not notes.stays:
        await switching.end_there(notes, run)
        if notes.goes_with_disk and notes.reverted:
            await guests.destroy(run, notes.destination, notes.server_id)
    elif notes.exchanges_disk:
        await root_disk.switch_off(notes, run)
        await root_disk.take_back(notes, run)
        await guest_disks.forget_kept(run, notes.source, notes.server_id)


def place_found(tx: Session, notes: ColdMove, run: Run[Compute]) -> ColdMove:
    """Say where the server is: where it was, unless it is known to have started elsewhere."""
    place_server(tx, notes, run)
    return notes if notes.kept else replace(notes, kept=notes.source, reason=DID_NOT_START)


async def release_claim(notes: ColdMove, run: Run[Compute]) -> None:
    """Hold room for the server where it is, and nowhere else."""
    if notes.reverted and not notes.has_moved:
        await claiming.release_source(notes, run)
    elif notes.reverted:
        await claiming.return_claim(notes, run)
    else:
        await claiming.settle_claim(notes, run)


def keep_places(tx: Session, notes: ColdMove, run: Run[Compute]) -> None:
    """Keep what still is attached at the host that is left, and put the server into ERROR.

    Its shares leave that host by themselves: no guest runs with them there.
    """
    kept_places.keep_places(tx, notes, run)
    sharing.leave_others(tx, run, notes.server_id, notes.kept)
    if notes.group_id:
        affinity.leave_place(tx, notes.server_id)


BAD_END = (
    Step("end_elsewhere", end_elsewhere),
    Step("place_found", place_found),
    Step("hold_places", kept_places.hold_places),
    Step("release_claim", release_claim),
    Step("keep_places", keep_places),
)
