"""Boot a rescued server from its own disks again, and remove what it was rescued with.

For its host it is a hard reboot, which always gives a guest its own disks: so one brings back a
server, too, that a reset has called active in the meantime (facts/compute.md 1.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.actions.story import Told, tell
from mooring.compute.power.sagas import power
from mooring.compute.power.sagas.power_notes import GIVES
from mooring.compute.rescue.sagas import rescue_steps as steps
from mooring.compute.rescue.sagas.rescue_notes import ChangeRescue
from mooring.saga.define import Run, Saga, Step, exclusive

if TYPE_CHECKING:
    from mooring.compute.service import Compute


async def start_guest(notes: ChangeRescue, run: Run[Compute]) -> ChangeRescue:
    """Have the host switch the guest off and start it from its own disks."""
    await steps.require_host(notes, run)
    await power.set_power(notes, run)
    return notes


UNRESCUE_SERVER = Saga(
    "compute.unrescue_server",
    ChangeRescue,
    Step("begin_change", power.begin_change, undo=steps.give_up),
    Step("find_lost_volumes", power.find_lost_volumes),
    Step("forget_lost_volumes", power.forget_lost_volumes),
    *GIVES,
    Step("start_guest", start_guest, deadline_s=700.0),
    Step("record_power", power.record_power),
    locks=lambda notes: [exclusive(f"server:{notes.server_id}")],
    pivot="start_guest",
    failed_end=(
        Step("look_at_guest", steps.look_at_guest),
        Step("give_up", steps.give_up),
    ),
    residue=("faults", "instance_actions"),
    story=tell(
        lambda notes: Told(event="compute_unrescue_instance", host=notes.host, notice="unrescue")
    ),
)
