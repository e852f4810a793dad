"""Make an image of a server's root disk, whatever its guest does (facts/compute.md 1.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.compute.actions.story import Told, tell
from mooring.compute.images.sagas import server_image
from mooring.compute.servers import states
from mooring.saga.define import Lock, Run, Saga, Step, exclusive

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


class CreateImage(Struct, frozen=True, kw_only=True):
    """The notes. `properties` are the image's own keys; sizes as `NewImage` has them."""

    server_id: str
    host: str
    action_id: int
    image_id: str
    name: str
    properties: dict[str, str]
    min_disk_gib: int
    min_ram_mib: int = 0


def begin_image(tx: Session, notes: CreateImage, run: Run[Compute]) -> None:
    """Show it."""
    states.move(tx, notes.server_id, "image_snapshot_pending", run.now())


def end_image(tx: Session, notes: CreateImage, run: Run[Compute]) -> None:
    """Leave the server idle; nothing of it has changed."""
    states.move(tx, notes.server_id, None, run.now())


async def create_record(notes: CreateImage, run: Run[Compute]) -> None:
    """Make the image, whose id is the answer."""
    new = server_image.describe(
        notes.image_id,
        notes.name,
        notes.properties,
        min_disk_gib=notes.min_disk_gib,
        min_ram_mib=notes.min_ram_mib,
    )
    await server_image.create_record(new, run)


def begin_capture(tx: Session, notes: CreateImage, run: Run[Compute]) -> None:
    """Say that the disk is being copied."""
    states.move(tx, notes.server_id, "image_snapshot", run.now())


def begin_upload(tx: Session, notes: CreateImage, run: Run[Compute]) -> None:
    """Say that the copy is on its way; nothing waits in between, so none is pending."""
    states.move(tx, notes.server_id, "image_uploading", run.now())


def _locks(notes: CreateImage) -> list[Lock]:
    return [exclusive(f"server:{notes.server_id}")]


def describe(notes: CreateImage, event: str = "compute_snapshot_instance") -> Told:
    """Tell of an image of a server's root disk, as its instance action names it."""
    return Told(
        event=event,
        host=notes.host,
        notice="snapshot",
        says_errors=False,
        stuck="{why}",
        members={"snapshot_image_id": notes.image_id},
    )


CREATE_IMAGE = Saga(
    "compute.create_image",
    CreateImage,
    Step("begin_image", begin_image, undo=end_image),
    Step(server_image.MADE_IN, create_record, undo=server_image.take_back_record),
    Step("begin_capture", begin_capture),
    Step("capture_disk", server_image.capture, undo=server_image.remove_capture, deadline_s=7500.0),
    Step("begin_upload", begin_upload),
    Step("upload_image", server_image.upload, deadline_s=7500.0),
    Step("remove_capture", server_image.remove_capture),
    Step("end_image", end_image),
    locks=_locks,
    answered_after=server_image.MADE_IN,
    kept_after="upload_image",
    pivot="remove_capture",
    # Where the image has its data already, it is what was asked for, and stays.
    undo_ends=(
        server_image.GIVE_UP_IMAGE,
        server_image.GIVE_UP_CAPTURE,
        Step("leave_server", end_image),
    ),
    owes=(server_image.GIVE_UP_IMAGE, server_image.GIVE_UP_CAPTURE),
    residue=("faults", "instance_actions", "former_images"),
    story=tell(describe),
)
