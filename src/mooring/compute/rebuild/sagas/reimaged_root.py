"""A root volume that is reimaged under its server: how it stands, and what was heard of it.

Specs 002, facts/compute.md 5.3. What holds is its status; an event only wakes who waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.volumes import disks
from mooring.compute.volumes.disks import Disk
from mooring.errors import NotFound
from mooring.limits import COMPUTE_CONTENT_WAIT_S
from mooring.saga import journal
from mooring.saga.define import Park, Run

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.clients.volume import Volume
    from mooring.compute.rebuild.sagas.rebuild_notes import RebuildServer
    from mooring.compute.service import Compute

OUTCOMES = ("failed", "completed")
"""What the event `volume-reimaged` may say."""
_DOWNLOADING, RESERVED = "downloading", "reserved"


def signal_of(volume_id: str) -> str:
    """Return the name of the signal that the event `volume-reimaged` gives."""
    return f"volume-reimaged:{volume_id}"


def outcome_of(volume_id: str, word: str) -> str:
    """Return the name of the signal that tells, until it is taken, what the event said."""
    return f"volume-reimage-{word}:{volume_id}"


async def has_old(notes: RebuildServer, run: Run[Compute], volume: Volume) -> bool:
    """Whether the attachment is still there that the server had it by, and stays.

    One that the volume service is deleting, however long its host takes, is gone.
    """
    if notes.old_attachment_id:
        return await disks.hold(run, old_disk(notes))
    return any(found.server_id == notes.server_id for found in volume.attachments)


async def is_new(notes: RebuildServer, run: Run[Compute], volume: Volume) -> bool:
    """Whether a volume at rest has its new content.

    When it had the same image before, only an event tells that the storage kept the old content.
    """
    image = _image_of(volume)
    if image != notes.image_id or image != notes.old_image_id:
        return image == notes.image_id
    return notes.asked and await find_outcome(notes, run) != "failed"


async def find_outcome(notes: RebuildServer, run: Run[Compute]) -> str:
    """Return what the event said, "" while there was none."""

    def find(tx: Session) -> str:
        for word in OUTCOMES:
            if journal.has_signal(tx, outcome_of(notes.volume_id, word)):
                return word
        return ""

    return await run.service.store.read(find)


async def has_begun(notes: RebuildServer, run: Run[Compute]) -> bool:
    """Whether an earlier request that got no answer was heard by a service without operations."""
    try:
        volume = await run.service.volumes.show(None, notes.volume_id)
    except NotFound:
        return False
    is_new = _image_of(volume) == notes.image_id != notes.old_image_id
    return volume.status == _DOWNLOADING or is_new


def rest_while_copying(notes: RebuildServer, volume: Volume) -> None:
    """Raise Park while the volume gets its content."""
    if volume.status == _DOWNLOADING:
        raise rest(notes)


def rest(notes: RebuildServer) -> Park:
    """Return how to wait for the event."""
    return Park(
        signal=signal_of(notes.volume_id),
        seconds=notes.wait_s,
        timeout_s=COMPUTE_CONTENT_WAIT_S,
        notes=notes,
    )


def old_disk(notes: RebuildServer) -> Disk:
    """Return it by the attachment that the server had."""
    return _disk(notes, notes.old_attachment_id)


def empty_disk(notes: RebuildServer) -> Disk:
    """Return it by the empty attachment that keeps it for the server."""
    return _disk(notes, notes.attachment_id or None)


def _disk(notes: RebuildServer, attachment_id: str | None) -> Disk:
    return Disk(
        server_id=notes.server_id,
        volume_id=notes.volume_id,
        host=notes.host,
        attachment_id=attachment_id,
        boot_index=0,
        known=notes.known,
    )


def _image_of(volume: Volume) -> str:
    return volume.volume_image_metadata.get("image_id", "")
