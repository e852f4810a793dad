"""Delete a server, whatever it is doing: end the guest, free its volumes and its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.actions import actions
from mooring.compute.actions.story import Told, tell
from mooring.compute.delete.sagas import elsewhere, old_image, old_shares, old_volumes, rooms
from mooring.compute.delete.sagas.delete_notes import (
    DeleteServer,
    disk_of,
    find,
    locks_of,
    look,
    look_elsewhere,
)
from mooring.compute.groups import groups
from mooring.compute.hosts import guests
from mooring.compute.moves import left_over, migrations
from mooring.compute.moves.sagas import sharing
from mooring.compute.servers import states
from mooring.compute.tables import Server
from mooring.compute.volumes import devices, disk_places, disks, reservations
from mooring.errors import NotFound
from mooring.saga.define import Each, Run, Saga, Step

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute

EVENT = "compute_terminate_instance"


def find_belongings(tx: Session, notes: DeleteServer, run: Run[Compute]) -> DeleteServer:
    """See what there is to end, now that nothing else holds the server."""
    states.move(tx, notes.server_id, "deleting", run.now())
    actions.fail_left(tx, notes.server_id, run.now())
    return _look_around(tx, notes, tx.get_one(Server, notes.server_id))


def _look_around(tx: Session, notes: DeleteServer, server: Server) -> DeleteServer:
    rows = devices.of_server(tx, notes.server_id)
    there = [disk for row in rows if row.volume_id for disk in look(tx, server, row)]
    # One that is on its way may wait for its copy to be freed, which is an item, too.
    there.sort(key=lambda disk: disk.delete_too)
    left = migrations.left_over(tx, notes.server_id)
    return look_elsewhere(tx, replace(notes, host=server.host, disks=there), server, left)


def give_up(tx: Session, notes: DeleteServer, run: Run[Compute]) -> None:
    """Say that the server was not deleted, because what held it did not end in time."""
    states.change(tx, notes.server_id, run.now(), task_state=None)
    actions.begin_event(tx, notes.action_id, EVENT, run.now(), host=None)
    actions.fail_left(tx, notes.server_id, run.now())


async def destroy_guest(notes: DeleteServer, run: Run[Compute]) -> None:
    """End the guest and remove what is its own."""
    await guests.destroy(run, notes.host, notes.server_id)


def mark_released(tx: Session, notes: DeleteServer, run: Run[Compute]) -> None:
    """Note that the guest is gone: from here on the volumes leave the server.

    A reset of the server's state that ends this frees them, and before that none.
    """
    for disk in notes.disks:
        if row := devices.find_volume(tx, notes.server_id, disk.volume_id):
            devices.change(tx, row.id, run.now(), state="released")


async def disconnect_host(notes: DeleteServer, item: str, run: Run[Compute]) -> None:
    """Remove a volume's device from a host."""
    await disks.leave(run, disk_of(notes, find(notes, item)))


async def delete_attachment(notes: DeleteServer, item: str, run: Run[Compute]) -> None:
    """End the export, or what was reserved and not written down; the last one frees the volume."""
    old = find(notes, item)
    if not old.attachment_id and old.state == "reserving":
        await _sweep(notes, run, old.volume_id)
    await disks.end(run, disk_of(notes, old))


def forget_device(tx: Session, notes: DeleteServer, item: str, run: Run[Compute]) -> None:
    """Forget the place of a volume and, with the one where the server ran, its block device."""
    del run
    old = find(notes, item)
    row = devices.find_volume(tx, notes.server_id, old.volume_id)
    if row is None:
        return
    if old.elsewhere:
        disk_places.remove(tx, row.id, old.elsewhere)
    else:
        devices.remove(tx, row.id)


async def sweep_attachments(notes: DeleteServer, run: Run[Compute]) -> None:
    """Delete what operations that this one took over had reserved and did not write down yet."""
    await _sweep(notes, run)


async def _sweep(notes: DeleteServer, run: Run[Compute], volume_id: str | None = None) -> None:
    volumes = run.service.volumes
    for left in await volumes.attachments(None, server_id=notes.server_id, volume_id=volume_id):
        await reservations.delete(run, left.id)


def bury_server(tx: Session, notes: DeleteServer, run: Run[Compute]) -> None:
    """Say that the server is gone; its row stays for those who ask for deleted ones."""
    now = run.now()
    devices.remove_all(tx, notes.server_id)
    old_shares.forget(tx, notes.server_id)
    left_over.end(tx, run.service, notes.server_id, run.now())
    groups.leave(tx, notes.server_id)
    gone = {"terminated_at": now, "deleted_at": now}
    states.settle(tx, notes.server_id, "deleted", states.NOSTATE, now, **gone)


def find_left(tx: Session, notes: DeleteServer, run: Run[Compute]) -> DeleteServer:
    """See what there is to end where it was not seen before the failure.

    This one may have taken the place of a move, which nobody else ends any more. There is none of a
    server whose creation was taken back before this began.
    """
    actions.fail_left(tx, notes.server_id, run.now())
    server = tx.get(Server, notes.server_id)
    return notes if notes.has_looked or not server else _look_around(tx, notes, server)


async def find_lost(notes: DeleteServer, run: Run[Compute]) -> DeleteServer:
    """Find volumes that were freed although the answer did not come."""
    lost: list[str] = []
    for disk in notes.disks:
        if disk.attachment_id is None:
            continue
        try:
            await run.service.volumes.show_attachment(None, disk.attachment_id)
        except NotFound:
            lost.append(disk.name)
    return replace(notes, lost=lost)


def fail_deletion(tx: Session, notes: DeleteServer, run: Run[Compute]) -> None:
    """Leave the server in ERROR with what is left of it: it can be deleted again.

    It goes back to no other host, which lets go of its shares by itself.
    """
    for disk in notes.disks:
        if row := devices.find_volume(tx, notes.server_id, disk.volume_id):
            devices.change(tx, row.id, run.now(), state=disk.state)
    for item in notes.lost:
        forget_device(tx, notes, item, run)
    left_over.end(tx, run.service, notes.server_id, run.now())
    sharing.leave_others(tx, run, notes.server_id, notes.host or "")
    states.break_down(tx, notes.server_id, run.now())


def _describe(notes: DeleteServer) -> Told:
    """Tell of it; upstream has no name for its failure."""
    details = "\n".join(notes.kept)
    return Told(event=EVENT, host=notes.host, notice="delete", says_errors=False, details=details)


def _say_how(notes: DeleteServer, run: Run[Compute]) -> str:
    """Return how a server is that was not deleted, and what to do."""
    del notes
    left = "in ERROR with what is left of it" if run.ends_badly else "as it was"
    return f"The server was not deleted, and is {left}. Delete it again."


DELETE_SERVER = Saga(
    "compute.delete_server",
    DeleteServer,
    Step("find_belongings", find_belongings, undo=give_up),
    Step("destroy_guest", destroy_guest, deadline_s=900.0),
    Each(
        "elsewhere",
        lambda notes: notes.elsewhere,
        Step("destroy_elsewhere", elsewhere.destroy, deadline_s=900.0),
    ),
    Step("mark_released", mark_released),
    old_shares.OLD_SHARES,
    Each(
        "disks",
        lambda notes: [disk.name for disk in notes.disks],
        Step("disconnect_host", disconnect_host),
        Step("delete_attachment", delete_attachment),
        Step("forget_device", forget_device),
        Step("delete_volume", old_volumes.delete),
    ),
    Step("sweep_attachments", sweep_attachments),
    Step("release_claim", rooms.release_claim),
    Step("delete_image", old_image.delete, may_be_forgone=True),
    Step("bury_server", bury_server),
    locks=locks_of,
    mode="preempt",
    pivot="find_belongings",
    failed_end=(
        Step("find_left", find_left),
        Step("find_lost", find_lost),
        Step("end_elsewhere", elsewhere.end, deadline_s=900.0),
        Step("release_moves", rooms.release_moves),
        Step("fail_deletion", fail_deletion),
    ),
    residue=("faults", "instance_actions"),
    story=tell(_describe, parts={"destroy_guest": "shutdown"}, state=_say_how),
)
