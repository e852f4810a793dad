"""Whose content may be replaced by an image, and by which. Source: facts/block_storage.md 4."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.errors import Conflict, Forbidden, Invalid, NotFound
from mooring.fence import table as fence
from mooring.fence.table import Answer
from mooring.volume.reimage.sagas.reimage_volume import REIMAGE_VOLUME, ReimageVolume
from mooring.volume.tables import AttachmentRow, TypeRow, VolumeRow
from mooring.volume.volumes import filling, statuses, volumes

if TYPE_CHECKING:
    from mooring.clients.image import Image
    from mooring.volume.attachments.reserving import Asked

KEEP = "reimage_keep_snapshot"
"""The extra spec of a type whose volumes keep their data when reimaging fails."""


async def reimage(
    asked: Asked,
    volume_id: str,
    image_id: str,
    *,
    reserved: bool,
    require: Callable[[str, VolumeRow], None],
) -> None:
    """Start to replace a volume's content; `reserved`: also of one that is reserved.

    `require` raises Forbidden unless policy lets the caller use a rule on the volume. Raises
    NotFound (volume, image), Conflict (several attachments), Invalid (status, unsuited image).
    """
    volume, resource = asked.volume, f"volume:{volume_id}"
    await volume.store.read(lambda tx: volumes.visible(tx, asked.who, volume_id).id)
    image = await _find_image(asked, image_id)

    def begin(tx: Session) -> None:
        if fence.admit(tx, asked.operation, resource, verb="POST") is not None:
            return
        row = volumes.visible(tx, asked.who, volume_id)
        was_reserved = row.status == "reserved"
        require("volume:reimage_reserved" if was_reserved else "volume:reimage", row)
        previous = _find_previous(tx, row, reserved=reserved)
        _check_image(row, image)
        _start(tx, asked, row, image, previous)
        fence.record(tx, asked.operation, resource, Answer(status=202), verb="POST")

    await volume.sagas.submit(begin)


def _find_previous(tx: Session, row: VolumeRow, *, reserved: bool) -> str:
    """Return the status that the volume will come back to."""
    query = select(AttachmentRow.attach_status).where(AttachmentRow.volume_id == row.id)
    attached = list(tx.execute(query).scalars())
    if len(attached) > 1:
        raise Conflict(
            f"Invalid volume: Volume {row.id} has {len(attached)} attachments; it can be reimaged "
            "with one at most. Nothing was changed.",
        )
    if row.status == "error" and reserved and attached == ["reserved"]:
        return "reserved"
    allowed = ("available", "error", *(["reserved"] if reserved else []))
    volumes.refuse_migrating(row)
    if row.status not in allowed:
        raise Invalid(
            f"Invalid volume: Volume {row.id} status must be {' or '.join(allowed)} to be "
            f"reimaged, but it is {row.status}. Nothing was changed.{statuses.way_out(row.status)}",
        )
    return row.status


def _check_image(row: VolumeRow, image: Image) -> None:
    if not image.is_active:
        raise Invalid(
            f"Invalid input received: Image {image.id} is not active, it is {image.status}. "
            "Nothing was changed.",
        )
    filling.refuse_without_data(image)
    if image.disk_format not in filling.FORMATS:
        raise Invalid(
            f"Invalid input received: Image {image.id} has the disk format {image.disk_format}; "
            f"volumes are filled from {' and '.join(filling.FORMATS)} only. Nothing was changed.",
        )
    sizes = {
        "size": image.size_gib,
        "virtual size": image.virtual_size_gib,
        "minDisk size": image.min_disk_gib,
    }
    for what, size_gib in sizes.items():
        if size_gib > row.size_gib:
            raise Invalid(
                f"Invalid input received: The {what} of image {image.id}, {size_gib}GB, is larger "
                f"than volume size {row.size_gib}GB. Nothing was changed.",
            )


def _start(tx: Session, asked: Asked, row: VolumeRow, image: Image, previous: str) -> None:
    if row.backend is None:
        raise Invalid(
            f"Invalid volume: Volume {row.id} has no storage; it was never made. Delete it.",
        )
    specs: dict[str, Any] = tx.get_one(TypeRow, row.volume_type_id).extra_specs
    notes = ReimageVolume(
        volume_id=row.id,
        backend=row.backend,
        image_id=image.id,
        image=filling.spec_of(image),
        image_metadata=filling.metadata_of(image),
        previous=previous,
        keeps=str(specs.get(KEEP, "")).lower() in {"true", "<is> true"},
    )
    now = asked.volume.clock.now()
    if not statuses.change(tx, row.id, allowed=(row.status,), now=now):
        raise Invalid(
            f"Invalid volume: Volume {row.id} is no longer {row.status}. Nothing was changed; "
            "ask again.",
        )
    asked.volume.sagas.start(tx, REIMAGE_VOLUME, notes, who=asked.who)


async def _find_image(asked: Asked, image_id: str) -> Image:
    try:
        return await asked.volume.images.show(asked.who, image_id)
    except (NotFound, Forbidden) as error:
        raise NotFound(
            f"Image {image_id} could not be found. Nothing was changed.", private=str(error)
        ) from error
