"""Give the server of a dead host to another one (specs 001, facts/compute.md 4.10).

It begins only where the host is known to be dead, and asks nothing of it: what is left there is
owed. Each volume is given to the destination beside its old attachment, so that it is never free.
Then the old ones are deleted, which ends their exports, and only then the guest starts. A root disk
that was on the host is lost with it: the server gets a new one of its image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.actions.story import SAYS_ALL, Told, send, tell
from mooring.compute.create import spawning
from mooring.compute.drives import config_drives
from mooring.compute.groups import affinity
from mooring.compute.hosts import guests, hosts
from mooring.compute.moves import migrations
from mooring.compute.moves.sagas import claiming, elsewhere, kept_places, leaving
from mooring.compute.moves.sagas.both_places import BOTH_PLACES
from mooring.compute.moves.sagas.cold_migrate import locks_of
from mooring.compute.moves.sagas.move_notes import Evacuate
from mooring.compute.scheduling import tried
from mooring.compute.servers import states
from mooring.compute.tables import Server
from mooring.compute.volumes import disk_places, disks
from mooring.errors import Conflict, Unavailable
from mooring.saga.define import Again, Run, Saga, Step
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute

_EVENT = "compute_rebuild_instance"


def begin_evacuation(tx: Session, notes: Evacuate, run: Run[Compute]) -> None:
    """Say that the server is to be elsewhere."""
    states.move(tx, notes.server_id, "rebuilding", run.now())
    migrations.change(tx, notes.migration_id, run.now(), status="pre-migrating")


def give_back(tx: Session, notes: Evacuate, run: Run[Compute]) -> None:
    """Leave the server with its dead host: no other one can have it."""
    disk_places.leave_waiting(tx, notes.waiting, notes.source, run.now())
    states.move(tx, notes.server_id, None, run.now())
    if notes.group_id:
        affinity.leave_place(tx, notes.server_id)
    where = notes.last_destination
    migrations.change(tx, notes.migration_id, run.now(), status="error", destination=where)


async def bring_image(notes: Evacuate, run: Run[Compute]) -> None:
    """See that the destination has the image of which the root disk is made anew."""
    server = await run.service.store.read(lambda tx: tx.get_one(Server, notes.server_id))
    if notes.is_local:
        await spawning.bring_image(run, notes.destination, server.image_id)


def place_server(tx: Session, notes: Evacuate, run: Run[Compute]) -> Evacuate:
    """Say where the server is from now on: it does not go back to a host that is dead."""
    now, host = run.now(), hosts.find(tx, notes.destination)
    states.change(
        tx,
        notes.server_id,
        now,
        host=notes.destination,
        zone=host.zone if host else notes.zone,
        task_state="rebuild_spawning",
    )
    if notes.group_id:
        affinity.leave_place(tx, notes.server_id)
    return replace(notes, kept=notes.destination)


async def owe_guest(notes: Evacuate, run: Run[Compute]) -> None:
    """Have the dead host end what it may have of the guest before it counts as up again."""
    await guests.destroy(run, notes.source, notes.server_id)


async def owe_guest_all_the_same(notes: Evacuate, run: Run[Compute]) -> None:
    """In a bad end see to that, too, unless the server is still with the dead host."""
    if notes.has_moved:
        await owe_guest(notes, run)


async def start_there(notes: Evacuate, run: Run[Compute]) -> None:
    """Define the guest at the destination, and start it if it is to run.

    Raises Conflict when another emulator keeps the image of a volume, after three minutes.
    """
    if await guests.is_lost(run, notes.destination):
        raise Conflict(
            f"Host {notes.destination}, to which server {notes.server_id} was evacuated, was "
            "forced down, too. Evacuate it once more.",
            **SAYS_ALL,
        )
    server = await run.service.store.read(lambda tx: tx.get_one(Server, notes.server_id))
    spec = spawning.specify_guest(
        server,
        server.image_id,
        await disks.specify_all(run, notes.destination, notes.server_id),
        drive=await config_drives.read(run, notes.server_id, notes.destination),
        power="off" if notes.stays_off else "on",
    )
    starting = guests.put(run, notes.destination, notes.server_id, spec)
    await guests.insist(run, _wait_for_images(notes, starting))


async def _wait_for_images(notes: Evacuate, starting: Awaitable[object]) -> None:
    """Await a start. Raises Unavailable, to be tried again, while another guest has an image.

    The fence may have ended a host whose storage still believes in its locks.
    """
    try:
        await starting
    except Conflict as error:
        if not is_unavailable(error):
            raise
        raise Unavailable(
            f"The guest of server {notes.server_id} was not started on host {notes.destination}: "
            "another emulator still has the image of one of its volumes open, so the guest on host "
            f"{notes.source} may be alive. Switch that host off, then reboot the server hard.",
            private=error.public,
            **SAYS_ALL,
        ) from error


def record_end(tx: Session, notes: Evacuate, run: Run[Compute]) -> None:
    """Say that the server is there; the record ends when its old host has paid what it owes."""
    now = run.now()
    state = ("stopped", states.SHUTDOWN) if notes.stays_off else ("active", states.RUNNING)
    states.settle(tx, notes.server_id, *state, now, launched_at=now)
    migrations.change(tx, notes.migration_id, now, status=migrations.DONE)


def _describe(notes: Evacuate) -> Told:
    before = tried.words(notes.tried)
    return Told(event=_EVENT, host=notes.source, notice="rebuild", before=before)


def say_where(notes: Evacuate, run: Run[Compute]) -> str:
    """Return where an evacuated server is by now, and what to do.

    No reset of its state: the guest may not be there, and a hard reboot makes it.
    """
    if not run.ends_badly:
        return (
            f"The server stays with host {notes.source}, as it was. Evacuate it again once another "
            "host can have it."
        )
    where = f"The server is on host {notes.kept}, where it may be off"
    if any(one.attachment_id and one.attachment_id not in notes.gone for one in notes.disks):
        where += f"; its volumes are still attached at host {notes.source}, too"
    reboot = "reboot it hard (openstack server reboot --hard)"
    rebuild = ", or rebuild it where its new root disk was not made" if notes.is_local else ""
    return f"{where}. See to what failed, then {reboot}{rebuild}."


_told = tell(_describe, state=say_where)


def _begin(tx: Session, notes: Evacuate, run: Run[Compute]) -> None:
    send(tx, notes, run, "evacuate")
    _told.begun(tx, notes, run)


_BAD_END = (
    Step("owe_guest_all_the_same", owe_guest_all_the_same),
    Step("hold_places", kept_places.hold_places),
    Step("release_claim", claiming.settle_claim),
    Step("keep_places", kept_places.keep_places),
)
EVACUATE = Saga(
    "compute.evacuate",
    Evacuate,
    Step("begin_evacuation", begin_evacuation, undo=give_back),
    Step("hold_source", claiming.hold_source, undo=claiming.return_claim),
    Step("claim_destination", claiming.claim_destination, undo=claiming.leave_destination),
    Step("save_destination", claiming.save_destination),
    Step("bring_image", bring_image, deadline_s=900.0),
    BOTH_PLACES,
    Step("place_server", place_server),
    Step("owe_guest", owe_guest),
    leaving.LEFT,
    Step("start_there", start_there, deadline_s=900.0),
    Step("settle_claim", claiming.settle_claim),
    Step("record_end", record_end),
    locks=locks_of,
    pivot="place_server",
    failed_end=_BAD_END,
    undo_ends=_BAD_END,
    owes=(Step("release_source", claiming.release_owed, may_be_forgone=True),),
    residue=("faults", "instance_actions", "migrations"),
    again=Again("claim_destination", elsewhere.try_elsewhere, told=elsewhere.tell(_EVENT)),
    story=replace(_told, begun=_begin),
)
