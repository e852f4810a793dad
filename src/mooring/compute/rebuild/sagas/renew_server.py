"""Rebuild a server whose root disk is made anew on its host, or whose root volume is kept as it is.

Source: facts/compute.md 4.13. The volumes of the server stay attached; those that an earlier
rebuild left reserved are connected again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.create import spawning
from mooring.compute.hosts import guests
from mooring.compute.rebuild.sagas import rebuild_ends as ends
from mooring.compute.rebuild.sagas import rebuild_steps as steps
from mooring.compute.rebuild.sagas.rebuild_notes import RebuildServer
from mooring.saga.define import Run, Saga, Step

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
    steps.BEGIN,
    Step("push_image", push_image, deadline_s=1800.0),
    *steps.TAKE_DOWN,
    *steps.BRING_UP,
    version=2,
    locks=steps.locks_of,
    pivot="switch_off",
    failed_end=(Step("settle_disk", settle_disk), *ends.BAD_END),
    undo_ends=ends.BREAK_DOWN,
    residue=("faults", "instance_actions"),
    story=steps.STORY,
    former=ends.FORMER,
)
