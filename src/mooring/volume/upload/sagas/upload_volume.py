"""Make an image of a volume that nobody has (facts/block_storage.md 1.6).

The volume's host copies it beside its storage, the control plane carries the copy to the image
service, and the host removes it (`mooring.captured_images`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring import captured_images
from mooring.agent_api.captures import DiskFormat
from mooring.captured_images import IMAGE_STAYS
from mooring.clients.image import NewImage
from mooring.errors import Conflict
from mooring.saga.define import Run, Saga, Step, exclusive
from mooring.volume.backends import backends
from mooring.volume.volumes import filling, statuses
from mooring.volume.volumes.story import Failure, tell

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from sqlalchemy.orm import Session

    from mooring.agent_api.client import AgentClient
    from mooring.volume.service import Volume
    from mooring.volume.tables import VolumeRow

UPLOADING = "uploading"
_CREATE, _CAPTURE = "create_record", "capture_volume"


class UploadVolume(Struct, frozen=True, kw_only=True):
    """The notes. `properties` are the image's own keys; sizes as `NewImage` has them."""

    volume_id: str
    backend: str
    image_id: str
    name: str
    disk_format: DiskFormat
    visibility: str = "private"
    protected: bool = False
    properties: dict[str, str] = {}
    min_disk_gib: int = 0
    min_ram_mib: int = 0


def begin_upload(tx: Session, notes: UploadVolume, run: Run[Volume]) -> None:
    """Show it."""
    now = run.now()
    statuses.change(tx, notes.volume_id, allowed=("available",), now=now, status=UPLOADING)


def show_available(tx: Session, notes: UploadVolume, run: Run[Volume]) -> None:
    """Say that the volume can be used again; nothing of it has changed."""
    now = run.now()
    statuses.change(tx, notes.volume_id, allowed=(UPLOADING,), now=now, status="available")


async def create_record(notes: UploadVolume, run: Run[Volume]) -> None:
    """Make the image, whose id is the answer. It may be deleted as long as it has no data."""
    new = NewImage(
        id=notes.image_id,
        name=notes.name,
        disk_format=notes.disk_format,
        visibility=notes.visibility,
        min_disk_gib=notes.min_disk_gib,
        min_ram_mib=notes.min_ram_mib,
        properties=notes.properties,
    )
    await captured_images.create_record(run.service.images, new, run)


async def take_back_record(notes: UploadVolume, run: Run[Volume]) -> None:
    """See that there is no image, and that none comes late. Raises Conflict for a whole one."""
    await captured_images.take_back(run.service.images, notes.image_id, run)


async def capture_volume(notes: UploadVolume, run: Run[Volume]) -> None:
    """Have the host copy the volume."""
    agent = await _agent(notes, run)
    copying = agent.put_volume_capture(
        notes.volume_id, notes.image_id, notes.disk_format, operation=run.operation
    )
    await filling.follow(run, agent, notes.volume_id, copying)


async def remove_capture(notes: UploadVolume, run: Run[Volume]) -> None:
    """Have the host stop copying, and remove the copy."""
    agent = await _agent(notes, run)
    await agent.delete_volume_capture(notes.volume_id, notes.image_id, operation=run.operation)


async def upload_image(notes: UploadVolume, run: Run[Volume]) -> None:
    """Carry the copy to the image service, unless the image has it already."""

    async def open_data() -> AsyncIterator[bytes]:
        agent = await _agent(notes, run)
        made = await agent.show_volume_capture(notes.volume_id, notes.image_id)
        if made is None or not made.is_whole:
            raise Conflict(
                f"Host {agent.name} has no copy of volume {notes.volume_id} any more. The image "
                "was not made; ask for another one."
            )
        pieces = agent.read_volume_capture(notes.volume_id, made)
        return captured_images.followed(run, pieces, made.size_bytes)

    of = f"volume {notes.volume_id}"
    await captured_images.upload(run.service.images, notes.image_id, of, open_data)


async def protect_image(notes: UploadVolume, run: Run[Volume]) -> None:
    """Protect an image that was asked for as protected. Raises NotFound when it is gone again."""
    if notes.protected:
        await run.service.images.protect(None, notes.image_id, protected=True)


async def give_up_image(notes: UploadVolume, run: Run[Volume]) -> None:
    """Remove an image that never got its data; one that has them becomes what was asked for."""
    images = run.service.images
    if await captured_images.delete_unfinished(images, notes.image_id, run, _CREATE):
        await protect_image(notes, run)


async def give_up_capture(notes: UploadVolume, run: Run[Volume]) -> None:
    """Remove the copy, and see that none is made late."""
    agent = await _agent(notes, run)
    operation = run.operation.of_step(_CAPTURE)
    await agent.delete_volume_capture(notes.volume_id, notes.image_id, operation=operation)


async def _agent(notes: UploadVolume, run: Run[Volume]) -> AgentClient:
    return await backends.agent_of(run, backends.split(notes.backend)[0])


def _explain(row: VolumeRow, notes: UploadVolume, run: Run[Volume]) -> Failure | None:
    del row, notes
    stays = run.undo_error is not None and run.undo_error.detail.keys() >= IMAGE_STAYS.keys()
    if stays or not run.answered:
        return None
    is_quota = run.error is not None and run.error.kind == "over_quota"
    return Failure("upload", "quota" if is_quota else "upload")


_GIVE_UP = (
    Step("give_up_image", give_up_image, may_be_forgone=True),
    Step("give_up_capture", give_up_capture, may_be_forgone=True, until_taken=True),
)
UPLOAD_VOLUME = Saga(
    "volume.upload_volume",
    UploadVolume,
    Step("begin_upload", begin_upload, undo=show_available),
    Step(_CREATE, create_record, undo=take_back_record),
    Step(_CAPTURE, capture_volume, undo=remove_capture, deadline_s=7500.0),
    Step("upload_image", upload_image, deadline_s=7500.0),
    Step("protect_image", protect_image),
    Step("show_available", show_available),
    Step("remove_capture", remove_capture, may_be_forgone=True),
    locks=lambda notes: (exclusive(f"volume:{notes.volume_id}"),),
    answered_after=_CREATE,
    visible_after="show_available",
    kept_after="upload_image",
    pivot="show_available",
    undo_ends=(*_GIVE_UP, Step("leave_volume", show_available)),
    owes=_GIVE_UP,
    residue=("messages", "former_images"),
    story=tell(explain=_explain),
)
