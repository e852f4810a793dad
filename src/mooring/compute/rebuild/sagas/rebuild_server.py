"""Rebuild a server whose root disk is a volume: the volume gets the content of an image.

Specs 002 and 004, facts/compute.md 5.3 and 5.4. The volume stays reserved for the server by an
empty attachment while the volume service replaces its content; the saga rests until then. What
holds is the volume's status: the event `volume-reimaged` only wakes the saga.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.hosts import guests
from mooring.compute.rebuild.sagas import rebuild_ends as ends
from mooring.compute.rebuild.sagas import rebuild_steps as steps
from mooring.compute.rebuild.sagas import reimaged_root as root
from mooring.compute.rebuild.sagas.rebuild_notes import RebuildServer
from mooring.compute.volumes import devices, disk_places, disks, reservations
from mooring.errors import Conflict, Invalid, NotFound
from mooring.saga import journal
from mooring.saga.define import Run, Saga, Step, Together, may_be_repeated
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute

_RESERVE, _ASK = "reserve_root", "start_reimage"


async def reserve_root(notes: RebuildServer, run: Run[Compute]) -> RebuildServer | None:
    """Make an empty attachment, so that the volume stays reserved for the server."""
    if not notes.frees:
        return None
    made = await reservations.reserve(run, root.empty_disk(notes), as_user=False)
    return replace(notes, attachment_id=made)


async def disconnect_root(notes: RebuildServer, run: Run[Compute]) -> None:
    """Remove the volume's device from the host."""
    if notes.frees:
        await guests.insist(run, disks.leave(run, root.old_disk(notes)))


async def free_root(notes: RebuildServer, run: Run[Compute]) -> None:
    """Delete the old attachment: with the empty one alone the volume is reserved."""
    if notes.frees:
        await guests.insist(run, disks.end(run, root.old_disk(notes)))


def save_root(tx: Session, notes: RebuildServer, run: Run[Compute]) -> None:
    """Note the empty attachment in the block device, in the transaction that ends `free_root`."""
    for word in root.OUTCOMES:
        journal.take_signal(tx, root.outcome_of(notes.volume_id, word))
    if notes.frees:
        device, made = notes.block_device_id, notes.attachment_id
        values = {"attachment_id": made, "state": "reserved"}
        disk_places.change(tx, device, notes.host, run.now(), **values)


async def start_reimage(notes: RebuildServer, run: Run[Compute]) -> RebuildServer:
    """Ask for the new content. A refusal means that nothing has changed."""
    asking = run.service.volumes.reimage(
        None, notes.volume_id, notes.image_id, reserved=True, operation=run.operation
    )
    try:
        await guests.insist(run, asking)
    except (Invalid, Conflict) as error:
        if is_unavailable(error) or not may_be_repeated(run):
            raise
        if not await root.has_begun(notes, run):
            raise
    return replace(notes, asked=True)


async def await_reimage(notes: RebuildServer, run: Run[Compute]) -> None:
    """Rest until the volume has the image, and see by its status that it has.

    Raises Conflict when it has not. One that is still being copied is waited for, also after the
    time that the image may take.
    """
    volume = await run.service.volumes.show(None, notes.volume_id)
    root.rest_while_copying(notes, volume)
    is_told = notes.image_id != notes.old_image_id or await root.find_outcome(notes, run)
    if not is_told and not notes.waited:
        # The image that it had already tells nothing, and the event may be on its way.
        raise root.rest(replace(notes, waited=True))
    if volume.status != root.RESERVED or not await root.is_new(notes, run, volume):
        raise Conflict(
            f"Volume {volume.id} did not get image {notes.image_id}; it is {volume.status}. One in "
            "error an administrator may have to reset to reserved first."
        )


# -- bad end -----------------------------------------------------------------------------------


async def settle_root(notes: RebuildServer, run: Run[Compute]) -> RebuildServer | Together:
    """See whether the root volume is as it was, once nothing changes it any more.

    When its old attachment is still there, the server has that one, and the empty one goes.
    """
    volumes = run.service.volumes
    if not notes.asked:
        await volumes.session.bury(run.operation.of_step(_ASK))
    row = await run.service.store.read(lambda tx: devices.find(tx, notes.block_device_id))
    try:
        volume = await volumes.show(None, notes.volume_id)
    except NotFound:
        return notes
    is_saved = row is None or not notes.frees or row.attachment_id != notes.old_attachment_id
    if not is_saved and await root.has_old(notes, run, volume):
        reserving = run.operation.of_step(_RESERVE)
        await guests.insist(run, reservations.free_made(run, root.empty_disk(notes), reserving))
        return replace(notes, kept=True)
    root.rest_while_copying(notes, volume)
    has_old = volume.status == root.RESERVED and not await root.is_new(notes, run, volume)
    settled = replace(notes, kept=has_old)
    if is_saved or not notes.attachment_id:
        return settled
    if row is not None:
        # Somebody ended the old one, maybe before the host let go, and no row will name it.
        await disconnect_root(notes, run)

    def save(tx: Session) -> None:
        save_root(tx, notes, run)

    return Together(save, settled)


REBUILD_SERVER = Saga(
    "compute.rebuild_server",
    RebuildServer,
    steps.BEGIN,
    *steps.TAKE_DOWN,
    Step(_RESERVE, reserve_root),
    Step("disconnect_root", disconnect_root),
    Step("free_root", free_root),
    Step("save_root", save_root),
    Step(_ASK, start_reimage),
    Step("await_reimage", await_reimage),
    *steps.BRING_UP,
    version=2,
    locks=steps.locks_of,
    pivot="switch_off",
    failed_end=(Step("settle_root", settle_root), *ends.BAD_END),
    undo_ends=ends.BREAK_DOWN,
    residue=("faults", "instance_actions"),
    story=steps.STORY,
    former=ends.FORMER,
)
