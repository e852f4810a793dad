"""The image that has the disk of a server which was put away, and is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from mooring.compute.shelve.sagas import shelved_image

if TYPE_CHECKING:
    from mooring.compute.delete.sagas.delete_notes import DeleteServer
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


async def delete(notes: DeleteServer, run: Run[Compute]) -> DeleteServer | None:
    """Delete it; the operation tells of one that the image service keeps."""
    kept = await shelved_image.delete(run, notes.image_id) if notes.image_id else ""
    return replace(notes, kept=[*notes.kept, kept]) if kept else None
