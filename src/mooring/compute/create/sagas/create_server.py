"""Create a server: reserve its volumes, find it a host, make its disks, start the guest.

The order of the calls to the volume service is that of facts/compute.md 4.7. A failure before the
answer leaves nothing; one of its host is followed by a try on another one (`create_again`); any
other one after the answer leaves the server in ERROR, with a fault that says why, and
without volumes or a place on a host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.actions.story import Told, tell, tell_of_round
from mooring.compute.create import spawning
from mooring.compute.create.sagas import create_again as again
from mooring.compute.create.sagas import create_claim as claims
from mooring.compute.create.sagas import create_volumes as volumes
from mooring.compute.create.sagas import made_volumes, unanswered_volumes
from mooring.compute.create.sagas.create_notes import (
    CreateServer,
    every,
    existing,
    find,
    guest_disk,
    say_where,
    to_make,
)
from mooring.compute.drives import config_drives
from mooring.compute.hosts import guests
from mooring.compute.scheduling import tried
from mooring.compute.servers import states
from mooring.compute.tables import Server
from mooring.compute.volumes import devices, disk_places
from mooring.compute.volumes.disks import specify
from mooring.compute.volumes.old_calls import exported_again
from mooring.errors import Conflict
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Again, Each, Former, Run, Saga, Step, exclusive

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute

EVENT = "compute__do_build_and_run_instance"


def begin_build(tx: Session, notes: CreateServer, run: Run[Compute]) -> None:
    """See that the server is still wanted."""
    if not states.move(tx, notes.server_id, "scheduling", run.now()):
        raise Conflict(f"Server {notes.server_id} was deleted before it was built.")


def end_build_badly(tx: Session, notes: CreateServer, run: Run[Compute]) -> None:
    """Leave nothing, or once the user was answered a server in ERROR, at no host."""
    if not run.answered:
        states.erase(tx, notes.server_id)
        return
    for block_device_id in every(notes):
        devices.remove(tx, block_device_id)
    states.break_down(tx, notes.server_id, run.now())
    states.change(tx, notes.server_id, run.now(), host=None, zone=None)


def accept_server(tx: Session, notes: CreateServer, run: Run[Compute]) -> None:
    """Answer the user: from here on a failure leaves a server in ERROR."""
    del tx, notes, run


async def push_image(notes: CreateServer, run: Run[Compute]) -> None:
    """See that the host has the image; it stays in the cache, whatever becomes of the server."""
    if notes.image_id:
        await spawning.bring_image(run, notes.host, notes.image_id)


def begin_spawning(tx: Session, notes: CreateServer, run: Run[Compute]) -> None:
    """Say that the guest is being started."""
    states.move(tx, notes.server_id, "spawning", run.now())


async def spawn_guest(notes: CreateServer, run: Run[Compute]) -> None:
    """Define the guest on its host and start it, with connection data that is fresh."""
    server = await run.service.store.read(lambda tx: tx.get_one(Server, notes.server_id))
    disks = [await specify(run, guest_disk(notes, item)) for item in every(notes)]
    drive = await config_drives.read(run, notes.server_id, notes.host)
    spec = spawning.specify_guest(server, notes.image_id, disks, drive=drive)
    await guests.put(run, notes.host, notes.server_id, spec)


async def destroy_guest(notes: CreateServer, run: Run[Compute]) -> None:
    """Remove the guest from its host, and let its volumes be exported to it no more."""
    if notes.old_calls:
        await run.service.volumes.session.bury(exported_again(run))
    await guests.destroy(run, notes.host or None, notes.server_id)


def record_active(tx: Session, notes: CreateServer, run: Run[Compute]) -> None:
    """Say that the server runs."""
    now = run.now()
    states.settle(tx, notes.server_id, "active", states.RUNNING, now, launched_at=now)
    for row in devices.of_server(tx, notes.server_id):
        devices.change(tx, row.id, now, state="attached")
        disk_places.change(tx, row.id, notes.host, now, state="attached")


def keep_server(tx: Session, notes: CreateServer, run: Run[Compute]) -> None:
    """Leave the server in ERROR, with what its host may have, until somebody deletes it."""
    for block_device_id in every(notes):
        if find(notes, block_device_id).attachment_id:
            devices.change(tx, block_device_id, run.now(), state="attached")
        else:
            devices.remove(tx, block_device_id)
    states.break_down(tx, notes.server_id, run.now())


def _describe(notes: CreateServer) -> Told:
    place = (notes.host, notes.zone) if notes.placed else (None, None)
    before = tried.words(notes.tried)
    return Told(event=EVENT, host=place[0], zone=place[1], notice="create", before=before)


CREATE_SERVER = Saga(
    "compute.create_server",
    CreateServer,
    Step("begin_build", begin_build, undo=end_build_badly),
    Each(
        "existing",
        existing,
        Step("reserve_existing", volumes.reserve_existing, undo=volumes.free_existing),
        Step("save_reservation", volumes.save_reservation),
    ),
    Step("accept_server", accept_server),
    Step("claim_host", claims.claim_host, undo=claims.release_claim),
    Step("place_server", claims.place_server, undo=claims.leave_place),
    Step("push_image", push_image, deadline_s=1800.0),
    Each("kept", existing, Step("keep_reserved", again.keep_reserved, undo=volumes.free)),
    Each(
        "again",
        again.to_reserve,
        Step("reserve_again", again.reserve_again, undo=volumes.free),
        Step("save_again", again.save_again),
    ),
    Each(
        "made",
        to_make,
        Step("make_volume", made_volumes.make_volume, undo=made_volumes.delete_made_volume),
        Step("save_volume", made_volumes.save_volume),
        Step("await_volume", made_volumes.await_volume),
        Step("reserve_made", volumes.reserve_made, undo=volumes.free),
        Step("save_attachment", volumes.save_attachment),
    ),
    Each(
        "every",
        every,
        Step(
            "export_volume",
            volumes.export_volume,
            undo=volumes.disconnect_host,
            undo_attempts=COMPUTE_UNDO_ATTEMPTS,
        ),
        Step("complete_attachment", volumes.complete_attachment, undo=volumes.uncomplete),
    ),
    Step("begin_spawning", begin_spawning),
    Step(
        "spawn_guest",
        spawn_guest,
        undo=destroy_guest,
        deadline_s=900.0,
        undo_attempts=COMPUTE_UNDO_ATTEMPTS,
    ),
    Step("record_active", record_active),
    version=2,
    locks=lambda notes: [
        exclusive(f"server:{notes.server_id}"),
        *(exclusive(f"volume:{disk.volume_id}") for disk in notes.disks if disk.source == "volume"),
    ],
    answered_after="accept_server",
    undo_ends=(
        Step("hold", volumes.hold),
        Step("delete_unheld", unanswered_volumes.delete_unheld),
        Step("keep_server", keep_server),
    ),
    owes=(Step("end_unanswered", unanswered_volumes.end_unanswered, may_be_forgone=True),),
    residue=("faults", "instance_actions", "error_server", "quota_locks", "quota_projects"),
    again=Again("claim_host", again.try_elsewhere, told=tell_of_round(_describe)),
    story=tell(_describe, from_answer=True, begins_after="place_server", state=say_where),
    former=Former(
        notes=lambda notes: {**notes, "placed": bool(notes.get("host"))},
        leaves=lambda notes: bool(notes.get("abandoned")),
    ),
)
