"""Put a server away: its guest ends, its room is given back, its volumes wait for it (specs 001).

Each volume gets a second, empty attachment while the guest still has the first, so that it is never
free for anybody else. Until the guest is off all of that is taken back; then there is no way back:
what its host or the volume service does not let go of stays attached, and the server is in ERROR.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.actions.story import Told, tell
from mooring.compute.groups import affinity
from mooring.compute.hosts import guests
from mooring.compute.power.sagas import power
from mooring.compute.servers import states
from mooring.compute.shelve.sagas.shelve_notes import (
    OffloadServer,
    at_host,
    find,
    items,
    nowhere,
    with_disk,
)
from mooring.compute.volumes import disk_places, disks
from mooring.compute.volumes.disk_places import NOWHERE
from mooring.errors import NotFound
from mooring.saga.define import Each, Lock, Run, Saga, Step, exclusive, shared

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


async def reserve_spare(notes: OffloadServer, item: str, run: Run[Compute]) -> OffloadServer:
    """Make the empty attachment that is to keep the volume for the server."""
    made = await disks.reserve(run, nowhere(notes, item), as_user=False)
    return with_disk(notes, item, made=made)


async def power_off(notes: OffloadServer, run: Run[Compute]) -> OffloadServer:
    """Switch the guest off; one that its host has not any more is off."""
    try:
        return replace(notes, found=(await power.set_power(notes, run)).found)
    except NotFound:
        return replace(notes, found="stopped")


def leave_host(tx: Session, notes: OffloadServer, run: Run[Compute]) -> None:
    """Say that the server leaves its host: from here on there is no way back."""
    now = run.now()
    states.change(tx, notes.server_id, now, task_state="shelving_offloading", power_state=_OFF)


async def destroy_guest(notes: OffloadServer, run: Run[Compute]) -> None:
    """End the guest, and remove what is its own on the host."""
    await guests.insist(run, guests.destroy(run, notes.host, notes.server_id))


def leave_place(tx: Session, notes: OffloadServer, item: str, run: Run[Compute]) -> None:
    """Say that the volume is at no host, and by which attachment it waits."""
    made = find(notes, item).made
    values = {"host": NOWHERE, "attachment_id": made, "state": "reserved"}
    disk_places.change(tx, item, notes.host, run.now(), **values)


async def release_claim(notes: OffloadServer, run: Run[Compute]) -> None:
    """Hold no room for the server."""
    await run.service.placement.release(notes.server_id, operation=run.operation)


def record_offloaded(tx: Session, notes: OffloadServer, run: Run[Compute]) -> None:
    """Say that the server is at no host, nor in its group's."""
    affinity.leave_place(tx, notes.server_id)
    away = {"host": None, "zone": None}
    states.settle(tx, notes.server_id, "shelved_offloaded", _OFF, run.now(), **away)


async def hold_volumes(notes: OffloadServer, run: Run[Compute]) -> OffloadServer:
    """Say that the volumes are in use which the host still has; none but the others wait."""
    for item in items(notes):
        disk, spare = at_host(notes, item), find(notes, item).made
        if await disks.hold(run, disk):
            await _delete(run, spare)
            notes = with_disk(notes, item, made="")
    return notes


def keep_volumes(tx: Session, notes: OffloadServer, run: Run[Compute]) -> None:
    """Put the server into ERROR, with what its host did not let go of."""
    for item in items(notes):
        if find(notes, item).made:
            leave_place(tx, notes, item, run)
    states.break_down(tx, notes.server_id, run.now())


async def free_unknown(notes: OffloadServer, run: Run[Compute]) -> None:
    """End the attachments that were made and not written down: nobody else knows of them."""
    for item in items(notes):
        for made in await disks.find_own(run, nowhere(notes, item)):
            await _delete(run, made)


async def _delete(run: Run[Compute], attachment_id: str) -> None:
    operation = guests.other(run.operation, f"delete.{attachment_id}")
    await run.service.volumes.delete_attachment(None, attachment_id, operation=operation)


def _locks(notes: OffloadServer) -> list[Lock]:
    volumes = [shared(f"volume:{disk.volume_id}") for disk in notes.disks]
    return [exclusive(f"server:{notes.server_id}"), *volumes]


def _describe(notes: OffloadServer) -> Told:
    event = "compute_shelve_offload_instance"
    return Told(event=event, host=notes.host, notice="shelve_offload", says_errors=False)


_OFF = states.SHUTDOWN
_left = disks.Steps(at_host, insists=True)
_BAD_END = (Step("hold_volumes", hold_volumes), Step("keep_volumes", keep_volumes))
OFFLOAD_SERVER = Saga(
    "compute.offload_server",
    OffloadServer,
    Step("begin_change", power.begin_change, undo=power.give_up),
    Each(
        "spared",
        items,
        Step("reserve_spare", reserve_spare, undo=disks.Steps(nowhere).free),
    ),
    Step("power_off", power_off, undo=power.look_at_guest, deadline_s=700.0),
    Step("leave_host", leave_host),
    Step("destroy_guest", destroy_guest, deadline_s=900.0),
    Each(
        "left",
        items,
        Step("disconnect_left", _left.leave),
        Step("delete_left", _left.end),
        Step("leave_place", leave_place),
    ),
    Step("release_claim", release_claim),
    Step("record_offloaded", record_offloaded),
    locks=_locks,
    pivot="leave_host",
    failed_end=_BAD_END,
    undo_ends=_BAD_END,
    owes=(Step("free_unknown", free_unknown, may_be_forgone=True),),
    residue=("faults", "instance_actions"),
    story=tell(_describe),
)
