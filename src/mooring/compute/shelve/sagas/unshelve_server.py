"""Give a server that was put away a host again, with its volumes (specs 001).

What fails is taken back: the server is as it was, at no host, and each volume is kept for it by an
empty attachment. One whose host cannot do its part is tried on another one. A root disk of its own
is made of the image that has it, which goes once the server runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.actions.story import Told, tell, tell_of_round
from mooring.compute.create import spawning
from mooring.compute.drives import config_drives
from mooring.compute.groups import affinity
from mooring.compute.hosts import guests, hosts
from mooring.compute.scheduling import needs, picking, tried
from mooring.compute.scheduling.picking import Owner
from mooring.compute.scheduling.reach import find_reach
from mooring.compute.servers import states
from mooring.compute.shelve.sagas import shelved_root
from mooring.compute.shelve.sagas.shelve_notes import (
    UnshelveServer,
    at_host,
    find,
    items,
)
from mooring.compute.shelve.sagas.waiting_volumes import GIVEN, hold_volumes
from mooring.compute.tables import Server
from mooring.compute.volumes import devices, disk_places, disks
from mooring.compute.volumes.disk_places import NOWHERE
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Again, Lock, Run, Saga, Step, exclusive, shared

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


def begin_unshelving(tx: Session, notes: UnshelveServer, run: Run[Compute]) -> None:
    """Show it."""
    states.move(tx, notes.server_id, "unshelving", run.now())


def put_back(tx: Session, notes: UnshelveServer, run: Run[Compute]) -> None:
    """Say that the server is put away, as before; in ERROR where its disk is gone for good."""
    if shelved_root.cannot_come_back(run):
        states.break_down(tx, notes.server_id, run.now())
    else:
        states.move(tx, notes.server_id, None, run.now())


async def claim_host(notes: UnshelveServer, run: Run[Compute]) -> UnshelveServer:
    """Choose a host with room, and hold it there. Raises NoCapacity."""
    server = await run.service.store.read(lambda tx: tx.get_one(Server, notes.server_id))
    asked = await run.service.store.read(lambda tx: devices.traits_of(tx, notes.server_id))
    wanted = needs.of_server(
        server,
        root_is_volume=not notes.image_id,
        besides=asked,
        zone=notes.wished_zone,
        host=notes.wished_host,
        tried=tried.names(notes.tried),
        reach=await find_reach(run.service.volumes, [disk.volume_id for disk in notes.disks]),
        group_id=notes.group_id,
    )
    chosen = await picking.claim(run, wanted, Owner(notes.project_id, notes.user_id))
    return replace(notes, host=chosen.host, zone=chosen.zone)


async def release_claim(notes: UnshelveServer, run: Run[Compute]) -> None:
    """Hold no room, nor a place in the group."""
    await picking.release(run, notes.server_id, notes.group_id)


def place_server(tx: Session, notes: UnshelveServer, run: Run[Compute]) -> UnshelveServer:
    """Say where the server will be, and in which zone its host is by now."""
    now, host = run.now(), hosts.find(tx, notes.host)
    notes = replace(notes, zone=host.zone if host else notes.zone)
    values = {"host": notes.host, "zone": notes.zone, "task_state": "spawning"}
    states.change(tx, notes.server_id, now, **values)
    disk_places.choose_host(tx, notes.server_id, notes.host, now)
    if notes.group_id:
        affinity.leave_place(tx, notes.server_id)
    return notes


def leave_place(tx: Session, notes: UnshelveServer, run: Run[Compute]) -> None:
    """Say that the server is at no host, and its volumes neither."""
    now = run.now()
    states.change(tx, notes.server_id, now, host=None, zone=None)
    for item in items(notes):
        disk_places.change(tx, item, notes.host, now, host=NOWHERE, state="reserved")


async def spawn_guest(notes: UnshelveServer, run: Run[Compute]) -> None:
    """Define the guest at its new host and start it, with connection data that is fresh.

    Raises Conflict where the host cannot make its disk.
    """
    server = await run.service.store.read(lambda tx: tx.get_one(Server, notes.server_id))
    given = [await disks.specify(run, at_host(notes, item)) for item in items(notes)]
    drive = await config_drives.read(run, notes.server_id, notes.host)
    spec = spawning.specify_guest(server, "", given, drive=drive)
    spec = shelved_root.specify(notes, server, spec)
    guest = await guests.put(run, notes.host, notes.server_id, spec)
    if notes.image_id and not guest.root_stands_alone:
        raise shelved_root.too_old(notes)


async def destroy_guest(notes: UnshelveServer, run: Run[Compute]) -> None:
    """Remove the guest from the host."""
    await guests.destroy(run, notes.host or None, notes.server_id)


def record_unshelved(tx: Session, notes: UnshelveServer, run: Run[Compute]) -> None:
    """Say that the server runs, with the names that volumes got which it never had before."""
    now = run.now()
    states.settle(tx, notes.server_id, "active", states.RUNNING, now, launched_at=now)
    for item in items(notes):
        devices.change(tx, item, now, device_name=find(notes, item).device_name)
        disk_places.change(tx, item, notes.host, now, state="attached")


def keep_server(tx: Session, notes: UnshelveServer, run: Run[Compute]) -> None:
    """Leave the server in ERROR at the host, with what that has.

    What waits is given to its guest by whatever starts that, under the name that it was to have.
    """
    now = run.now()
    for disk in notes.disks:
        devices.change(tx, disk.block_device_id, now, device_name=disk.device_name)
        if disk.made:
            values = {"host": NOWHERE, "attachment_id": disk.made}
            disk_places.change(tx, disk.block_device_id, notes.host, now, **values)
    states.break_down(tx, notes.server_id, now)


def try_elsewhere(notes: UnshelveServer, run: Run[Compute]) -> UnshelveServer | None:
    """Return the notes to try another host with, once nothing is left on the one that failed.

    None where none may be taken, or enough were tried, or it was not the host's fault.
    """
    so_far = tried.one_more(notes.tried, run.error, notes.host, notes.wished_host)
    return None if so_far is None else replace(notes, host="", zone="", tried=so_far)


def _locks(notes: UnshelveServer) -> list[Lock]:
    volumes = [shared(f"volume:{disk.volume_id}") for disk in notes.disks]
    return [exclusive(f"server:{notes.server_id}"), *volumes]


def _describe(notes: UnshelveServer) -> Told:
    return Told(
        event="compute_unshelve_instance",
        host=notes.host or None,
        notice="unshelve",
        says_errors=False,
        before=tried.words(notes.tried),
    )


def _say_where(notes: UnshelveServer, run: Run[Compute]) -> str:
    """Return how a server is that did not come back, and what to do."""
    if not run.ends_badly:
        return "The server stays away, as it was. Unshelve it again once a host can have it."
    return (
        f"The server is on host {notes.host}, which did not let it go, and may be off there. See "
        "to that host, then reboot the server hard (openstack server reboot --hard)."
    )


UNSHELVE_SERVER = Saga(
    "compute.unshelve_server",
    UnshelveServer,
    Step("begin_unshelving", begin_unshelving, undo=put_back),
    Step("claim_host", claim_host, undo=release_claim),
    Step("place_server", place_server, undo=leave_place),
    shelved_root.BROUGHT,
    GIVEN,
    Step(
        "spawn_guest",
        spawn_guest,
        undo=destroy_guest,
        deadline_s=900.0,
        undo_attempts=COMPUTE_UNDO_ATTEMPTS,
    ),
    Step("record_unshelved", record_unshelved),
    shelved_root.DELETED,
    locks=_locks,
    visible_after="record_unshelved",
    pivot="record_unshelved",
    undo_ends=(Step("hold_volumes", hold_volumes), Step("keep_server", keep_server)),
    owes=(Step("give_up_image", shelved_root.give_up_image, may_be_forgone=True),),
    residue=("faults", "instance_actions"),
    again=Again("claim_host", try_elsewhere, told=tell_of_round(_describe)),
    story=tell(_describe, state=_say_where),
)
