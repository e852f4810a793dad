"""Make an image of a server's root disk in the place of its oldest one (facts/compute.md 1.4).

The older images go once the new one has its data, and as many as the server had too many: also
those that an earlier backup could not delete. Where none are to be kept the new one goes, too.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import replace

from mooring.compute.actions.story import tell
from mooring.compute.images.sagas import create_image, server_image
from mooring.compute.images.sagas.create_image import CreateImage
from mooring.compute.servers import states
from mooring.errors import Conflict, Forbidden, NotFound
from mooring.saga.define import Each, Run, Saga, Step, exclusive
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


class CreateBackup(CreateImage, frozen=True, kw_only=True):
    """The notes. `keep` images of the type stay, the new one among them; those of `old` go."""

    project_id: str
    backup_type: str
    keep: int
    old: list[str] = field(default_factory=list[str])


def begin_capture(tx: Session, notes: CreateBackup, run: Run[Compute]) -> None:
    """Say that the disk is being copied."""
    states.move(tx, notes.server_id, "image_backup", run.now())


async def choose_old(notes: CreateBackup, run: Run[Compute]) -> CreateBackup:
    """Find the images that are too many: of this server, of its project and of this type.

    None are while the new one is not there: a backup that came to nothing costs no older one.
    """
    wanted = {
        "owner": notes.project_id,
        "instance_uuid": notes.server_id,
        "image_type": "backup",
        "backup_type": notes.backup_type,
    }
    found = await run.service.images.newest(None, wanted)
    ids = [image.id for image in found]
    if notes.image_id not in ids:
        return replace(notes, old=[])
    ids.remove(notes.image_id)
    return replace(notes, old=[notes.image_id, *ids][notes.keep :])


async def delete_old(notes: CreateBackup, image_id: str, run: Run[Compute]) -> None:
    """Delete one of them; one that is protected, or in use, its owner keeps.

    The next backup finds it too many once more.
    """
    del notes
    try:
        await run.service.images.delete(None, image_id)
    except (Conflict, Forbidden, NotFound) as error:
        if is_unavailable(error):
            raise


async def rotate(notes: CreateBackup, run: Run[Compute]) -> None:
    """Delete what is too many, where the way back has left the new image."""
    for image_id in (await choose_old(notes, run)).old:
        await delete_old(notes, image_id, run)


CREATE_BACKUP = Saga(
    "compute.create_backup",
    CreateBackup,
    Step("begin_image", create_image.begin_image, undo=create_image.end_image),
    Step(server_image.MADE_IN, create_image.create_record, undo=server_image.take_back_record),
    Step("begin_capture", begin_capture),
    Step("capture_disk", server_image.capture, undo=server_image.remove_capture, deadline_s=7500.0),
    Step("begin_upload", create_image.begin_upload),
    Step("upload_image", server_image.upload, deadline_s=7500.0),
    Step("remove_capture", server_image.remove_capture),
    Step("choose_old", choose_old),
    Each("old", lambda notes: notes.old, Step("delete_old", delete_old)),
    Step("end_image", create_image.end_image),
    locks=lambda notes: [exclusive(f"server:{notes.server_id}")],
    answered_after=server_image.MADE_IN,
    kept_after="upload_image",
    pivot="remove_capture",
    undo_ends=(
        server_image.GIVE_UP_IMAGE,
        server_image.GIVE_UP_CAPTURE,
        Step("rotate", rotate),
        Step("leave_server", create_image.end_image),
    ),
    owes=(server_image.GIVE_UP_IMAGE, server_image.GIVE_UP_CAPTURE),
    residue=("faults", "instance_actions", "former_images"),
    story=tell(partial(create_image.describe, event="compute_backup_instance")),
)
