"""Rebuild a server whose root disk is made anew on its host, or whose root volume is kept as it is.

Source: facts/compute.md 4.13. The volumes of the server stay attached; those that an earlier
rebuild left reserved are connected again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.create import spawning
from mooring.compute.hosts import guests
from mooring.compute.rebuild.sagas import rebuild_steps as steps
from mooring.compute.rebuild.sagas.rebuild_notes import RebuildServer, to_connect
from mooring.saga.define import Each, Run, Saga, Step

if TYPE_CHECKING:
    from mooring.compute.service import Compute


async def push_image(notes: RebuildServer, run: Run[Compute]) -> None:
    """See that the host has the image while the server still is as it was."""
    if notes.has_local_root:
        await spawning.bring_image(run, notes.host, notes.image_id)


async def settle_disk(notes: RebuildServer, run: Run[Compute]) -> RebuildServer:
    """See whether the server still has the guest that it had."""
    if notes.destroyed or await guests.is_lost(run, notes.host):
        return notes
    there = await guests.ask(run, notes.host, lambda agent: agent.show_server(notes.server_id))
    return replace(notes, kept=there is not None or not notes.found)


RENEW_SERVER = Saga(
    "compute.renew_server",
    RebuildServer,
    Step("begin_rebuild", steps.begin_rebuild, undo=steps.give_up),
    Step("push_image", push_image, deadline_s=1800.0),
    Step("look_at_guest", steps.look_at_guest),
    Step("switch_off", steps.switch_off, deadline_s=700.0),
    Step("destroy_guest", steps.destroy_guest),
    Step("begin_mapping", steps.begin_mapping),
    Each("reserved", to_connect, Step("connect_volume", steps.connect_volume)),
    Step("begin_spawning", steps.begin_spawning),
    Step("spawn_guest", steps.spawn_guest, deadline_s=900.0),
    Each("connected", to_connect, Step("complete_volume", steps.complete_volume)),
    Step("record_rebuilt", steps.record_rebuilt),
    locks=steps.locks_of,
    pivot="switch_off",
    failed_end=(
        Step("settle_disk", settle_disk),
        Step("connect_again", steps.connect_again),
        Step("return_guest", steps.return_guest),
        Step("complete_again", steps.complete_again),
        Step("end_badly", steps.end_badly),
    ),
    residue=("faults", "instance_actions"),
)
