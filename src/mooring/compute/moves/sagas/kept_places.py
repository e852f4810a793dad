"""The bad end of every move: what is held on to at either host stays on record (specs 001)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from mooring.compute.moves import migrations, turns
from mooring.compute.moves.sagas import both_places
from mooring.compute.moves.sagas.move_notes import (
    Move,
    find,
    items,
    there,
)
from mooring.compute.servers import states
from mooring.compute.volumes import disk_places, disks, reservations
from mooring.compute.volumes.old_calls import named
from mooring.errors import MooringError
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Run
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.volumes.disks import Disk

M = TypeVar("M", bound=Move)
DID_NOT_START = "It did not start."
"""Why a guest that may have been switched off for a move is said to be where it was."""
WAY_BACK = "It was not taken back: {why}"
"""What is told where an undo was refused, too."""


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


def say_where(notes: Move, run: Run[Compute]) -> str:
    """Return where a server is by now and what to do, to tell before what failed.

    Nothing while it is not known where: it is where it was then, and as it was.
    """
    del run
    if not notes.kept:
        return ""
    if notes.left in {"", notes.kept}:
        see = f"The server is on host {notes.kept}. See to it"
    else:
        see = (
            f"The server is on host {notes.kept}; host {notes.left} may still have its volumes. "
            "See to that one"
        )
    if notes.lost:
        return f"{see}, then reboot the server hard."
    reset = f"{see}, then reset the server's state (openstack server set --state active)"
    may_be_off = notes.reason == DID_NOT_START
    return f"{reset}, or reboot it hard if it does not run." if may_be_off else f"{reset}."
