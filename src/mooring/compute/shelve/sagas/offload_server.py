"""Put a server away: its guest ends, its room is given back, its volumes wait for it (specs 001).

Each volume gets a second, empty attachment while the guest still has the first, so that it is never
free for anybody else. Until the guest is switched off all of that is taken back. From then on there
is no way back: what its host or the volume service does not let go of stays attached, what they let
go of waits, and the server is in ERROR once its guest was to end. It is away all the same where
all let go of it, and only its room was not given back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.actions.story import Told, tell
from mooring.compute.groups import affinity
from mooring.compute.hosts import guests
from mooring.compute.power.sagas import power
from mooring.compute.servers import states
from mooring.compute.shelve.sagas import shelved_image, shelved_room
from mooring.compute.shelve.sagas.shelve_notes import (
    OffloadServer,
    at_host,
    find,
    has_left,
    items,
    nowhere,
    say_where,
    with_disk,
)
from mooring.compute.volumes import disk_places, disks, old_calls, reservations
from mooring.compute.volumes.disk_places import NOWHERE
from mooring.compute.volumes.old_calls import BY_OLD_CALLS, named
from mooring.errors import NotFound
from mooring.saga.define import Each, Lock, Run, Saga, Step, exclusive, shared

if TYPE_CHECKING:
    from typing import TypeVar

    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute

    N = TypeVar("N", bound=OffloadServer)

_RESERVE = "reserve_spare"


async def check_image(notes: OffloadServer, run: Run[Compute]) -> None:
    """See that the image is there that is to have the disk, before the host removes that."""
    await shelved_image.require(run, notes.server_id)


async def reserve_spare(notes: OffloadServer, item: str, run: Run[Compute]) -> OffloadServer:
    """Make the empty attachment that is to keep the volume for the server."""
    made = await reservations.reserve(run, nowhere(notes, item), as_user=False)
    return with_disk(notes, item, made=made)


async def power_off(notes: N, run: Run[Compute]) -> N:
    """Switch the guest off; one that its host has not any more is off.

    So is one that was off before on a host that was forced down.
    """
    if notes.was_off and await guests.is_lost(run, notes.host):
        return replace(notes, found="stopped")
    try:
        return replace(notes, found=(await power.set_power(notes, run)).found)
    except NotFound:
        return replace(notes, found="stopped")


def leave_host(tx: Session, notes: OffloadServer, run: Run[Compute]) -> OffloadServer:
    """Say that the server leaves its host."""
    now = run.now()
    states.change(tx, notes.server_id, now, task_state="shelving_offloading", power_state=_OFF)
    return replace(notes, is_leaving=True)


async def destroy_guest(notes: OffloadServer, run: Run[Compute]) -> OffloadServer:
    """End the guest, and remove what is its own on the host."""
    await guests.insist(run, guests.destroy(run, notes.host, notes.server_id))
    return replace(notes, is_gone=True)


def leave_place(tx: Session, notes: OffloadServer, item: str, run: Run[Compute]) -> None:
    """Say that the volume is at no host, and by which attachment it waits."""
    _move_place(tx, item, run, (notes.host, NOWHERE), find(notes, item).made)


def _move_place(
    tx: Session, item: str, run: Run[Compute], hosts: tuple[str, str], attachment_id: str
) -> None:
    """Say by which attachment a volume is at the second host, and not at the first any more."""
    state = "attached" if hosts[1] else "reserved"
    values = {"host": hosts[1], "attachment_id": named(attachment_id), "state": state}
    disk_places.change(tx, item, hosts[0], run.now(), **values)


def record_offloaded(tx: Session, notes: OffloadServer, run: Run[Compute]) -> None:
    """Say that the server is at no host, nor in its group's."""
    affinity.leave_place(tx, notes.server_id)
    away = {"host": None, "zone": None}
    states.settle(tx, notes.server_id, states.OFFLOADED, _OFF, run.now(), **away)


async def hold_volumes(notes: OffloadServer, run: Run[Compute]) -> OffloadServer:
    """Say that the volumes are in use which the host still has; none but the others wait."""
    for item in items(notes):
        disk, spare = at_host(notes, item), find(notes, item).made
        if not await disks.hold(run, disk) and await _has_left(notes, item, run):
            notes = with_disk(notes, item, attachment_id="")
        elif spare:
            await reservations.delete(run, spare)
            notes = with_disk(notes, item, made="")
    return notes


async def _has_left(notes: OffloadServer, item: str, run: Run[Compute]) -> bool:
    """Whether the host has let go of a volume whose attachment is gone: an operator may end one."""
    places = await run.service.store.read(lambda tx: disk_places.of_device(tx, item))
    if all(place.host != notes.host for place in places):
        return True
    return notes.is_leaving and await disks.try_to_leave(run, at_host(notes, item))


def keep_server(tx: Session, notes: OffloadServer, run: Run[Compute]) -> None:
    """Leave the server with what its host did not let go of, and what waits for it.

    Away when that is everything; in ERROR when its guest was to end; as its guest is when that
    could not be switched off.
    """
    for item in items(notes):
        disk = find(notes, item)
        if disk.made:
            leave_place(tx, notes, item, run)
        elif disk.attachment_id:
            _move_place(tx, item, run, (NOWHERE, notes.host), disk.attachment_id)
        else:
            disk_places.remove(tx, item, notes.host)
    if has_left(notes):
        record_offloaded(tx, notes, run)
    elif notes.is_leaving:
        states.break_down(tx, notes.server_id, run.now())
    else:
        power.give_up(tx, notes, run)


async def free_unknown(notes: OffloadServer, run: Run[Compute]) -> None:
    """End the attachments that no place has: those made, or left, and not written down."""
    for item in items(notes):
        disk, reserving = at_host(notes, item), run.operation.of_step(f"{_RESERVE}:{item}")
        for one in (nowhere(notes, item), disk):
            await reservations.free_unnoted(run, one, reserving)
        came_so = find(notes, item).attachment_id == BY_OLD_CALLS
        if came_so and not await old_calls.are_left(run, item):
            await old_calls.end(run, disk, is_known=False)


def locks_of(notes: OffloadServer) -> list[Lock]:
    """Return the server, and beside others its volumes."""
    volumes = [shared(f"volume:{disk.volume_id}") for disk in notes.disks]
    return [exclusive(f"server:{notes.server_id}"), *volumes]


def _describe(notes: OffloadServer) -> Told:
    event = "compute_shelve_offload_instance"
    return Told(event=event, host=notes.host, notice="shelve_offload", says_errors=False)


_OFF = states.SHUTDOWN
_left = disks.Steps(at_host, insists=True)
_BAD_END = (
    Step("look_at_guest", power.look_at_guest),
    Step("hold_volumes", hold_volumes),
    Step("release_rest", shelved_room.release_rest),
    Step("keep_server", keep_server),
)
OFFLOAD_SERVER = Saga(
    "compute.offload_server",
    OffloadServer,
    Step("begin_change", power.begin_change, undo=power.give_up),
    Step("check_image", check_image),
    Each(
        "spared",
        items,
        Step(_RESERVE, reserve_spare, undo=disks.Steps(nowhere).free),
    ),
    Step("power_off", power_off, deadline_s=700.0),
    Step("leave_host", leave_host),
    Step("destroy_guest", destroy_guest, deadline_s=900.0),
    Each(
        "left",
        items,
        Step("disconnect_left", _left.leave),
        Step("leave_place", leave_place),
        Step("delete_left", _left.end),
    ),
    Step("release_claim", shelved_room.release_claim),
    Step("record_offloaded", record_offloaded),
    locks=locks_of,
    pivot="power_off",
    failed_end=_BAD_END,
    undo_ends=_BAD_END,
    owes=(Step("free_unknown", free_unknown, may_be_forgone=True),),
    residue=("faults", "instance_actions"),
    story=tell(_describe, state=say_where),
)
