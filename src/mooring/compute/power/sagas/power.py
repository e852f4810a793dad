"""Stop, start and reboot a server, let it stand still and go on (facts/compute.md 1.4, 4.13)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.actions import actions
from mooring.compute.actions.story import Told, tell
from mooring.compute.hosts import guests
from mooring.compute.power.sagas import power_request
from mooring.compute.power.sagas.power_notes import (
    GIVES,
    TAKES,
    ChangePower,
    starts_anew,
    takes_disks,
)
from mooring.compute.power.sagas.power_outcome import OFF, STATES, WITH_SHARES, guest_after, seen
from mooring.compute.servers import states
from mooring.compute.shares import power
from mooring.compute.tables import BlockDevice
from mooring.compute.volumes import devices, disk_places, disks
from mooring.compute.volumes.sagas.release_device import hurry
from mooring.errors import Conflict, NotFound
from mooring.saga.define import Each, Lock, Mode, Run, Saga, Step, Together, exclusive

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute

Parts = Sequence[Each]
EVENTS = {"on": "compute_start_instance", "off": "compute_stop_instance"}
_NOTICES = {"on": "power_on", "off": "power_off"}


def begin_change(tx: Session, notes: ChangePower, run: Run[Compute]) -> ChangePower:
    """Show it; a hard reboot makes what waits to be released try at once."""
    actions.fail_left(tx, notes.server_id, run.now())
    states.move(tx, notes.server_id, notes.task_state, run.now())
    if notes.state == "reboot" and notes.mode == "hard":
        hurry(tx, run.service, notes.server_id)
    shares, mounted = power.look(tx, notes.server_id, notes.host)
    return replace(notes, shares=shares, mounted=mounted)


async def look_at_guest(notes: ChangePower, run: Run[Compute]) -> ChangePower | None:
    """See what became of the guest: what failed may have happened all the same.

    Of a host that is lost what it answered before is known, if it did.
    """
    if await guests.is_lost(run, notes.host):
        return None
    guest = await guests.ask(run, notes.host, lambda agent: agent.show_server(notes.server_id))
    return replace(notes, found=guest.state if guest else "")


async def unmount_unused(notes: ChangePower, run: Run[Compute]) -> Together | None:
    """Unmount the shares of a guest that was to start, and is off."""
    if notes.found not in OFF or await guests.is_lost(run, notes.host):
        return None
    return await power.unmount_unused(notes, run)


def give_up(tx: Session, notes: ChangePower, run: Run[Compute]) -> None:
    """Leave the server as its guest is."""
    states.change(tx, notes.server_id, run.now(), task_state=None, **seen(tx, notes))
    if notes.found:
        power.show(tx, notes.server_id, run.now(), runs=notes.found in WITH_SHARES)


async def find_lost_volumes(notes: ChangePower, run: Run[Compute]) -> ChangePower | None:
    """Find volumes whose attachment somebody deleted: the guest could not be started with them.

    Attachments that no block device knows are left alone (specs 001): they may belong to a
    clean-up, or to an operation that has not ended.
    """
    if not takes_disks(notes):
        return None
    rows = await run.service.store.read(
        lambda tx: disks.attached(devices.of_server(tx, notes.server_id))
    )
    lost: list[str] = []
    for row in rows:
        if row.attachment_id is None:
            continue
        try:
            await run.service.volumes.show_attachment(None, row.attachment_id)
        except NotFound as error:
            if row.boot_index == 0 or notes.state == "resume":
                raise _needs(notes, row) from error
            lost.append(row.id)
    return replace(notes, lost=lost)


def _needs(notes: ChangePower, row: BlockDevice) -> Conflict:
    """Return the refusal to go on without a volume whose attachment is gone."""
    if notes.state == "resume":
        return Conflict(
            f"The attachment of volume {row.volume_id} is gone. The server stays suspended: its "
            "memory has that disk. Reboot it hard to start it without."
        )
    return Conflict(
        f"The attachment of the root volume {row.volume_id} is gone. The server was left as it "
        "is; it cannot boot without it."
    )


def forget_lost_volumes(tx: Session, notes: ChangePower, run: Run[Compute]) -> ChangePower | None:
    """Forget the block devices of volumes that the server has lost.

    Those that wait at no host, as putting it away or bringing it back half failed, a guest that
    starts is to have: they go to its host, which gives them to it (`disks.specify_all`).
    """
    for block_device_id in notes.lost:
        devices.remove(tx, block_device_id)
    if not starts_anew(notes):
        return None
    waiting = disk_places.choose_host(tx, notes.server_id, notes.host, run.now())
    return replace(notes, waiting=waiting)


def leave_waiting(tx: Session, notes: ChangePower, run: Run[Compute]) -> None:
    """Say that what waited at no host does so: no host was asked to have it."""
    disk_places.leave_waiting(tx, notes.waiting, notes.host, run.now())


async def set_power(notes: ChangePower, run: Run[Compute]) -> ChangePower:
    """Have the host do it, with connection data that is fresh; note how the guest is then."""
    if await guests.is_lost(run, notes.host):
        raise Conflict(
            f"Host {notes.host} was forced down. The server was left as it is; evacuate or delete "
            "it."
        )
    await power_request.ask(notes, run)
    return replace(notes, found=guest_after(notes))


def record_power(tx: Session, notes: ChangePower, run: Run[Compute]) -> None:
    """Say what became of it. A soft reboot changes no vm_state."""
    now, guest = run.now(), guest_after(notes)
    for block_device_id in notes.waiting:
        disk_places.change(tx, block_device_id, notes.host, now, state="attached")
    power.show(tx, notes.server_id, now, runs=guest in WITH_SHARES)
    if notes.state == "reboot" and notes.mode == "soft":
        states.change(tx, notes.server_id, now, task_state=None, power_state=states.RUNNING)
    else:
        states.settle(tx, notes.server_id, *STATES[guest], now)


def _locks(notes: ChangePower) -> list[Lock]:
    return [exclusive(f"server:{notes.server_id}")]


def _describe(notes: ChangePower) -> Told:
    """Tell how far it is; only a reboot's failure has a name upstream."""
    return Told(
        event=EVENTS.get(notes.state, f"compute_{notes.state}_instance"),
        host=notes.host,
        notice=_NOTICES.get(notes.state, notes.state),
        says_errors=notes.state == "reboot",
    )


def _make(
    name: str, mode: Mode = "refuse", *, before: Parts = (), behind: Parts = ()
) -> Saga[ChangePower]:
    return Saga(
        name,
        ChangePower,
        Step("begin_change", begin_change, undo=give_up),
        Step("find_lost_volumes", find_lost_volumes),
        Step("forget_lost_volumes", forget_lost_volumes, undo=leave_waiting),
        *before,
        Step("set_power", set_power, deadline_s=700.0),
        *behind,
        Step("record_power", record_power),
        locks=_locks,
        mode=mode,
        pivot="set_power",
        failed_end=(
            Step("look_at_guest", look_at_guest),
            Step("unmount_unused", unmount_unused),
            Step("give_up", give_up),
        ),
        residue=("faults", "instance_actions"),
        story=tell(_describe),
    )


STOP_SERVER = _make("compute.stop_server", behind=TAKES)
START_SERVER = _make("compute.start_server", before=GIVES)
REBOOT_SERVER = _make("compute.reboot_server", before=GIVES)
PAUSE_SERVER = _make("compute.pause_server")
UNPAUSE_SERVER = _make("compute.unpause_server")
SUSPEND_SERVER = _make("compute.suspend_server")
RESUME_SERVER = _make("compute.resume_server")
INSIST_ON_REBOOT = _make("compute.insist_on_reboot", "preempt", before=GIVES)
"""A hard reboot in the place of a reboot, pause or resume that does not come to its end."""
INSIST_ON_STOP = _make("compute.insist_on_stop", "preempt", behind=TAKES)
"""A stop in the place of what gives way and does not come to its end: its guest may hang."""
