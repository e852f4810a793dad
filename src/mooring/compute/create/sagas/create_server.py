"""Create a server: reserve its volumes, find it a host, make its disks, start the guest.

The order of the calls to the volume service is that of facts/compute.md 4.7. A failure before the
answer leaves nothing; one after it leaves the server in ERROR, with a fault that says why, and
without volumes or a place on a host.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.actions import actions, faults, notices
from mooring.compute.create import scheduling, spawning
from mooring.compute.create.sagas import create_volumes as volumes
from mooring.compute.create.sagas.create_notes import (
    CreateServer,
    every,
    existing,
    find,
    guest_disk,
    to_make,
)
from mooring.compute.hosts import guests, hosts
from mooring.compute.servers import states
from mooring.compute.tables import Server
from mooring.compute.volumes import devices, disk_places
from mooring.compute.volumes.disks import specify
from mooring.errors import Conflict, NoCapacity
from mooring.saga.define import Each, Run, Saga, Step, exclusive

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute

EVENT = "compute__do_build_and_run_instance"


def begin_build(tx: Session, notes: CreateServer, run: Run[Compute]) -> None:
    """See that the server is still wanted."""
    if not states.move(tx, notes.server_id, "scheduling", run.now()):
        raise Conflict(f"Server {notes.server_id} was deleted before it was built.")


def end_build_badly(tx: Session, notes: CreateServer, run: Run[Compute]) -> None:
    """Leave nothing, or once the user was answered a server in ERROR that says why."""
    if not notes.accepted:
        states.erase(tx, notes.server_id)
        return
    for block_device_id in every(notes):
        if notes.abandoned and find(notes, block_device_id).attachment_id:
            # The host may have it: it is the server's until somebody deletes that.
            devices.change(tx, block_device_id, run.now(), state="attached")
        else:
            devices.remove(tx, block_device_id)
    states.break_down(tx, notes.server_id, run.now())
    faults.record(tx, notes.server_id, run.error, run.now())
    actions.fail(tx, notes.action_id, run.error, run.now())
    _notify_of_failure(tx, notes, run)
    if not notes.abandoned:
        states.change(tx, notes.server_id, run.now(), host=None, zone=None)


def accept_server(tx: Session, notes: CreateServer, run: Run[Compute]) -> CreateServer:
    """Answer the user: from here on a failure leaves a server in ERROR."""
    del tx, run
    return replace(notes, accepted=True)


async def claim_host(notes: CreateServer, run: Run[Compute]) -> CreateServer:
    """Choose a host with room and hold the resources there. Raises NoCapacity."""
    compute, now = run.service, run.now()
    server = await compute.store.read(lambda tx: tx.get_one(Server, notes.server_id))
    known = await compute.store.read(hosts.find_all)
    root_is_volume = not notes.image_id
    held = await compute.placement.allocations(notes.server_id)
    for provider_id in held.allocations:
        for host in known:
            if host.provider_id == provider_id:
                return replace(notes, host=host.name, zone=host.zone)
    candidates = await compute.placement.candidates(
        scheduling.resources_of(server, root_is_volume=root_is_volume),
        scheduling.traits_of(server.extra_specs, notes.traits),
        scheduling.CANDIDATES,
    )
    wish = scheduling.Wish(notes.wished_zone, notes.wished_host)
    down_after_s = compute.settings.host_down_s
    for chosen in scheduling.choose(candidates, known, wish, now, down_after_s):
        try:
            await compute.placement.claim(
                notes.server_id,
                chosen.allocations,
                project_id=notes.project_id,
                user_id=notes.user_id,
                operation=run.operation,
            )
        except NoCapacity:
            continue
        return replace(notes, host=chosen.host, zone=chosen.zone)
    raise NoCapacity(scheduling.NO_HOST)


async def release_claim(notes: CreateServer, run: Run[Compute]) -> None:
    """Hold nothing on any host, unless the host did not let go."""
    if not notes.abandoned:
        await run.service.placement.release(notes.server_id, operation=run.operation)


def place_server(tx: Session, notes: CreateServer, run: Run[Compute]) -> None:
    """Say where the server will be."""
    now = run.now()
    states.change(
        tx,
        notes.server_id,
        now,
        host=notes.host,
        zone=notes.zone,
        task_state="block_device_mapping",
    )
    disk_places.choose_host(tx, notes.server_id, notes.host, now)
    actions.begin_event(tx, notes.action_id, EVENT, now, host=notes.host)
    _notify(tx, notes, run, "start")


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
    spec = spawning.specify_guest(server, notes.image_id, disks)
    await guests.ask(
        run,
        notes.host,
        lambda agent: agent.put_server(notes.server_id, spec, operation=run.operation),
    )


async def destroy_guest(notes: CreateServer, run: Run[Compute]) -> CreateServer | None:
    """Remove the guest from its host."""
    undoing = guests.destroy(run, notes.host or None, notes.server_id)
    failure = await guests.give_up_late(run, undoing)
    return replace(notes, abandoned=failure) if failure else None


def record_active(tx: Session, notes: CreateServer, run: Run[Compute]) -> None:
    """Say that the server runs."""
    now = run.now()
    states.settle(tx, notes.server_id, "active", states.RUNNING, now, launched_at=now)
    for row in devices.of_server(tx, notes.server_id):
        devices.change(tx, row.id, now, state="attached")
        disk_places.change(tx, row.id, notes.host, now, state="attached")
    actions.succeed(tx, notes.action_id, now)
    _notify(tx, notes, run, "end")


def _notify(tx: Session, notes: CreateServer, run: Run[Compute], phase: str) -> None:
    notices.send(
        tx,
        run.service,
        notes.server_id,
        f"create.{phase}",
        action_id=notes.action_id,
        error=run.error,
    )


def _notify_of_failure(tx: Session, notes: CreateServer, run: Run[Compute]) -> None:
    """Tell that it failed: on its host, or before there was one and so before its start."""
    if states.host_of(tx, notes.server_id) is None:
        notices.send_build_failure(tx, run.service, notes.server_id, run.error)
    else:
        _notify(tx, notes, run, "error")


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
    Step("claim_host", claim_host, undo=release_claim),
    Step("place_server", place_server),
    Step("push_image", push_image, deadline_s=1800.0),
    Each(
        "made",
        to_make,
        Step("make_volume", volumes.make_volume, undo=volumes.delete_made_volume),
        Step("save_volume", volumes.save_volume),
        Step("await_volume", volumes.await_volume),
        Step("reserve_made", volumes.reserve_made, undo=volumes.free_made),
        Step("save_attachment", volumes.save_attachment),
    ),
    Each(
        "every",
        every,
        Step("export_volume", volumes.export_volume, undo=volumes.disconnect_host),
        Step("complete_attachment", volumes.complete_attachment),
    ),
    Step("begin_spawning", begin_spawning),
    Step("spawn_guest", spawn_guest, undo=destroy_guest, deadline_s=900.0),
    Step("record_active", record_active),
    locks=lambda notes: [
        exclusive(f"server:{notes.server_id}"),
        *(exclusive(f"volume:{disk.volume_id}") for disk in notes.disks if disk.source == "volume"),
    ],
    answered_after="accept_server",
    residue=("faults", "instance_actions", "error_server", "quota_locks", "quota_projects"),
)
