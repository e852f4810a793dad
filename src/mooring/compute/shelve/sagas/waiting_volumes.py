"""The volumes of a server that was put away, given to the host that it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.shelve.sagas.shelve_notes import (
    UnshelveServer,
    at_host,
    items,
    nowhere,
    with_disk,
)
from mooring.compute.volumes import devices, disk_places, disks, reservations
from mooring.errors import Invalid, NotFound
from mooring.limits import COMPUTE_UNDO_ATTEMPTS
from mooring.saga.define import Each, Run, Step, Together

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute

_EXPORT = "export_volume"


async def export(notes: UnshelveServer, item: str, run: Run[Compute]) -> None:
    """Have the volume exported to the host, by the attachment that kept it for the server."""
    await disks.export(run, at_host(notes, item))


async def put_away(notes: UnshelveServer, item: str, run: Run[Compute]) -> Together:
    """Have an empty attachment keep the volume again, and then end the exported one.

    The host lets go before, as starting the guest may have connected the volume.
    """
    old = at_host(notes, item)
    try:
        made = await _reserve(notes, item, run)
    except NotFound:
        # An administrator deleted the volume while it waited: there is nothing to keep.
        await disks.leave(run, old)
        return Together(lambda tx: devices.remove(tx, item))
    await disks.leave(run, old)
    await reservations.delete(run, old.attachment_id or "")

    def save(tx: Session) -> None:
        disk_places.change(tx, item, notes.host, run.now(), attachment_id=made)

    return Together(save, with_disk(notes, item, attachment_id=made))


async def _reserve(notes: UnshelveServer, item: str, run: Run[Compute]) -> str:
    """Make the empty attachment.

    Cinder reserves none of a volume that is being given to a host: it is said to be in use first
    (facts/block_storage.md 2.4).
    """
    try:
        return await reservations.reserve(run, nowhere(notes, item), as_user=False)
    except Invalid:
        await disks.hold(run, at_host(notes, item))
        return await reservations.reserve(run, nowhere(notes, item), as_user=False)


async def hold_volumes(notes: UnshelveServer, run: Run[Compute]) -> UnshelveServer:
    """Say that the volumes are in use which the host has, as it would not let go of them.

    The empty attachment that was to keep such a one goes, once it is sure that the other one stays.
    By its own one waits that was never given to the host, or is kept again, and by the empty one
    that whose attachment is gone.
    """
    for item in items(notes):
        disk, spare = at_host(notes, item), nowhere(notes, item)
        found = await reservations.find(run, disk.attachment_id)
        if found is not None and not found.connection_info:
            # Where it is kept anew already, the way back has asked for the end of this one.
            made = next(iter(await reservations.find_own(run, spare)), found.id)
            notes = with_disk(notes, item, made=made)
            continue
        held = await disks.try_to_hold(run, disk)
        if held:
            undoing = run.operation.of_step(f"{_EXPORT}:{item}")
            await reservations.free_unnoted(run, spare, undoing)
        elif held is False:
            made = next(iter(await reservations.find_own(run, spare)), "")
            notes = with_disk(notes, item, made=made)
    return notes


GIVEN = Each(
    "volumes",
    items,
    Step(_EXPORT, export, undo=put_away, undo_attempts=COMPUTE_UNDO_ATTEMPTS),
    Step("complete_volume", disks.Steps(at_host).complete),
)
"""Exported one after the other, and said to be in use before the guest starts."""
