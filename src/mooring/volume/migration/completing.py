"""What compute says of a volume that it was asked to migrate under a guest.

Source: facts/block_storage.md 1.6 (`os-migrate_volume_completion`). Policy is checked by the route.
Errors: NotFound for what the caller may not see, Invalid for volumes that do not wait for this,
Conflict while an attachment of the copy is at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.errors import Conflict, Invalid
from mooring.volume.attachments import attachments, fenced
from mooring.volume.migration import copies, copy_rows
from mooring.volume.volumes import volumes

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.attachments.reserving import Asked
    from mooring.volume.tables import VolumeRow


async def complete(asked: Asked, volume_id: str, new_id: str, *, failed: bool) -> str:
    """Take compute's word for a migration; return the id that the volume goes on with: its own.

    One that went well is the copy from here on, in one transaction: whoever asks next finds it
    there. One that failed is undone by whoever waits for this.
    """
    volume = asked.volume

    def act(tx: Session) -> None:
        row = volumes.visible(tx, asked.who, volume_id)
        copy = _find_copy(tx, row, volumes.visible(tx, asked.who, new_id))
        if not failed:
            _check_attached(tx, asked, row, copy)
        now = volume.clock.now()
        move = copies.find(row)
        if failed and move is not None:
            copy_rows.refuse(tx, move, now)
        else:
            copy_rows.take_over(tx, row, copy, now)
        volume.sagas.signal(tx, copy_rows.signal_of(row.id))

    await fenced.change(asked, f"volume:{volume_id}/migrating", act, verb="POST")
    return volume_id


def _find_copy(tx: Session, row: VolumeRow, named: VolumeRow) -> VolumeRow:
    """Return the copy that a volume waits for. Raises Invalid unless it is the one named."""
    copy = copy_rows.find(tx, row)
    if copy is None:
        why = f"volume {row.id} is not being migrated under a server"
    elif copy.id != named.id:
        why = f"volume {row.id} goes on as volume {copy.id}, not as {named.id}"
    elif copy.status in ("creating", "error"):
        why = f"its copy {copy.id} is {copy.status}"
    else:
        return copy
    raise Invalid(f"Invalid volume: {why}. Nothing was changed; look at both volumes.")


def _check_attached(tx: Session, asked: Asked, row: VolumeRow, copy: VolumeRow) -> None:
    """Raise Invalid while no guest has a copy, Conflict while one of its attachments is at work.

    A compute service of ours, which has operations, says what it knows. From everybody else the
    copy may be as empty as it was made: a Nova completes the attachment first (facts/compute.md
    4.12). What is at work on an attachment knows the copy by its own id, and would miss it.
    """
    if asked.operation is None and copy.attach_status != "attached":
        raise Invalid(
            f"Invalid volume: no server has its copy yet, which is {copy.attach_status}. Nothing "
            f"was changed; volume {row.id} is completed once its server goes on with {copy.id}."
        )
    at_work = [found for found in attachments.of_volume(tx, copy.id) if found.saga_id]
    if at_work:
        raise Conflict(
            f"Resource conflict: Operation {at_work[0].saga_id} is at work on attachment "
            f"{at_work[0].id} of copy {copy.id}. Nothing was changed; try again when it has ended.",
            busy=True,
        )
