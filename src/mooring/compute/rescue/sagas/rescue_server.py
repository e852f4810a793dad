"""Boot a server from a disk that its host makes of an image, with its own disks beside that.

Until the guest is ended, a failure leaves it as it is. From then on there is only forward, and one
that does not start so is started from its own disks again, if it ran (facts/compute.md 1.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.agent_api.servers import RescueDisk
from mooring.compute.actions.story import Told, tell
from mooring.compute.create import spawning
from mooring.compute.hosts import guests
from mooring.compute.power.sagas import power, power_request
from mooring.compute.power.sagas.power_notes import GIVES
from mooring.compute.rescue.sagas import rescue_steps as steps
from mooring.compute.rescue.sagas.rescue_notes import RUNS, RescueServer
from mooring.compute.servers import states
from mooring.compute.shares import power as share_power
from mooring.errors import Conflict
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Former, Run, Saga, Step, exclusive

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.servers import PowerRequest
    from mooring.compute.service import Compute


async def find_guest(notes: RescueServer, run: Run[Compute]) -> RescueServer:
    """See how the guest is. Raises Conflict when there is none."""
    await steps.require_host(notes, run)
    guest = await guests.ask(run, notes.host, lambda agent: agent.show_server(notes.server_id))
    if guest is None:
        raise Conflict(
            f"Host {notes.host} has no guest of server {notes.server_id}, which was left as it is. "
            "Reboot it hard, or rebuild it."
        )
    return replace(notes, was_running=guest.state in RUNS)


async def push_image(notes: RescueServer, run: Run[Compute]) -> None:
    """See that the host has the image while the server still is as it was."""
    await spawning.bring_image(run, notes.host, notes.image_id)


async def start_rescue(notes: RescueServer, run: Run[Compute]) -> None:
    """Have the host make the disk, shut the guest down and start it from there."""
    await steps.require_host(notes, run)
    request = await power_request.build(notes, run)
    disk = RescueDisk(
        image_id=notes.image_id, device=notes.device, bus=notes.bus, is_stable=notes.is_stable
    )
    await _set_power(notes, run, replace(request, mode="soft", rescue=disk))


def record_rescued(tx: Session, notes: RescueServer, run: Run[Compute]) -> None:
    """Say that the server is rescued."""
    now = run.now()
    share_power.show(tx, notes.server_id, now, runs=True)
    states.settle(tx, notes.server_id, "rescued", states.RUNNING, now)


async def return_guest(notes: RescueServer, run: Run[Compute]) -> RescueServer:
    """Let the guest have its own disks again, on or off as it was, unless it never lost them."""
    if not notes.found or (notes.found in RUNS and not notes.in_rescue):
        return notes
    if not await guests.is_lost(run, notes.host):
        request = await power_request.build(notes, run)
        request = request if notes.was_running else replace(request, state="off")
        await _set_power(notes, run, request)
    return replace(notes, found="running" if notes.was_running else "stopped", in_rescue=False)


def end_refused(tx: Session, notes: RescueServer, run: Run[Compute]) -> None:
    """Put a server into ERROR whose guest was not brought back; leave another one as it is."""
    if notes.is_changed:
        states.break_down(tx, notes.server_id, run.now())
    else:
        steps.give_up(tx, notes, run)


async def _set_power(notes: RescueServer, run: Run[Compute], request: PowerRequest) -> None:
    await guests.ask(
        run,
        notes.host,
        lambda agent: agent.set_power(notes.server_id, request, operation=run.operation),
    )


def _describe(notes: RescueServer) -> Told:
    """Tell how far it is, and of a server in ERROR what to do."""
    advice = "The server was not brought back ({why}); reboot it hard."
    return Told(
        event="compute_rescue_instance",
        host=notes.host,
        notice="rescue",
        stuck=advice if notes.is_changed else "",
    )


RESCUE_SERVER = Saga(
    "compute.rescue_server",
    RescueServer,
    Step("begin_change", power.begin_change, undo=steps.give_up),
    Step("find_guest", find_guest),
    Step("find_lost_volumes", power.find_lost_volumes),
    Step("forget_lost_volumes", power.forget_lost_volumes),
    Step("push_image", push_image, deadline_s=1800.0),
    *GIVES,
    Step("start_rescue", start_rescue, deadline_s=700.0),
    Step("record_rescued", record_rescued),
    version=2,
    locks=lambda notes: [exclusive(f"server:{notes.server_id}")],
    pivot="start_rescue",
    failed_end=(
        Step("look_at_guest", steps.look_at_guest),
        Step(
            "return_guest",
            return_guest,
            deadline_s=700.0,
            undo_attempts=COMPUTE_UNDO_ATTEMPTS,
        ),
        Step("unmount_unused", power.unmount_unused),
        Step("end_badly", steps.give_up),
    ),
    undo_ends=(Step("look_once_more", steps.look_at_guest), Step("end_refused", end_refused)),
    residue=("faults", "instance_actions"),
    story=tell(_describe),
    former=Former(leaves=lambda notes: bool(notes.get("broken"))),
)
