"""Which volumes become images, and what those say. Source: facts/block_storage.md 1.6."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.clients.image import GLANCES_OWN, inherited
from mooring.errors import Invalid
from mooring.volume.tables import TypeRow
from mooring.volume.upload.sagas.upload_volume import UPLOAD_VOLUME, UploadVolume
from mooring.volume.volumes import statuses, volumes

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.captures import DiskFormat
    from mooring.volume.attachments.reserving import Asked
    from mooring.volume.tables import VolumeRow

_OF_THE_OLD_ONE = frozenset(("image_id", "image_name"))
"""What a volume shows of its image that is neither a property of it nor one of Glance's words."""


class Upload(Struct, frozen=True, kw_only=True):
    """What is asked for, its form already checked."""

    name: str
    disk_format: DiskFormat
    visibility: str = "private"
    protected: bool = False


class Begun(Struct, frozen=True, kw_only=True):
    """An upload that is under way: its image, and the volume and its type as they are now."""

    image_id: str
    volume: VolumeRow
    volume_type: TypeRow


async def upload(asked: Asked, volume_id: str, wanted: Upload) -> Begun:
    """Begin to make an image of a volume; return once its record is there.

    Raises NotFound, Invalid for a volume that is not available, and what the image service refuses.
    """
    volume, image_id = asked.volume, str(uuid.uuid4())

    def begin(tx: Session) -> str:
        row = volumes.visible(tx, asked.who, volume_id)
        backend = _require(row)
        notes = UploadVolume(
            volume_id=row.id,
            backend=backend,
            image_id=image_id,
            name=wanted.name,
            disk_format=wanted.disk_format,
            visibility=wanted.visibility,
            protected=wanted.protected,
            properties=_properties_of(row),
            min_disk_gib=row.size_gib,
            min_ram_mib=_min_ram_of(row),
        )
        return volume.sagas.start(tx, UPLOAD_VOLUME, notes, who=asked.who)

    await volume.sagas.answered(await volume.sagas.submit(begin))

    def look(tx: Session) -> Begun:
        row = volumes.visible(tx, asked.who, volume_id)
        of_type = tx.get_one(TypeRow, row.volume_type_id)
        return Begun(image_id=image_id, volume=row, volume_type=of_type)

    return await volume.store.read(look)


def _require(row: VolumeRow) -> str:
    """Return where a volume lies that can be copied now. Raises Invalid.

    One in use is refused also when forced: upstream's option for that, `enable_force_upload`, is
    off by default, and this cloud has none, since what a guest writes meanwhile would be in the
    image in part.
    """
    if row.status != "available" or volumes.is_migrating(row):
        raise Invalid(
            f"Invalid volume: Volume {row.id} status must be available to be uploaded to an image, "
            f"but it is {row.status}; this cloud has no enable_force_upload. Nothing was changed; "
            "of a volume in use take a snapshot, and upload a new volume made from that."
            f"{statuses.way_out(row.status)}"
        )
    if row.backend is None:
        raise Invalid(f"Invalid volume: Volume {row.id} has no storage. Delete it.")
    return row.backend


def _properties_of(row: VolumeRow) -> dict[str, str]:
    """Return what the image has of the one that filled the volume."""
    found = inherited(row.image_metadata)
    return {
        key: value
        for key, value in found.items()
        if key not in GLANCES_OWN and key not in _OF_THE_OLD_ONE
    }


def _min_ram_of(row: VolumeRow) -> int:
    """Return how much memory the image that filled the volume wanted, in MiB."""
    text = row.image_metadata.get("min_ram", "")
    return int(text) if text.isdecimal() else 0
