"""Volumes: what a client may ask for, and when. Source: facts/block_storage.md 1.2.

Policy is checked by the route. Errors: NotFound for what the caller may not see, Invalid for a
request or a state that forbids it (Cinder answers both with 400), OverQuota.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring import labels
from mooring.agent_api.volumes import SnapshotName
from mooring.errors import Forbidden, Invalid, NotFound
from mooring.fence import table as fence
from mooring.fence.table import Answer
from mooring.store.loaded import ById
from mooring.volume.quotas import quota
from mooring.volume.snapshots import snapshot_rows
from mooring.volume.tables import BackendRow, TypeRow, VolumeRow
from mooring.volume.types import types
from mooring.volume.volumes import filling
from mooring.volume.volumes.sagas.create_notes import CreateVolume
from mooring.volume.volumes.sagas.create_volume import (
    CLONE_VOLUME,
    CREATE_VOLUME,
    CREATE_VOLUME_FROM_SNAPSHOT,
)

if TYPE_CHECKING:
    from mooring.clients.image import Image
    from mooring.volume.attachments.reserving import Asked
    from mooring.volume.service import Volume
    from mooring.volume.snapshots.snapshot_rows import Source
    from mooring.who import Who

IMAGE_TYPE = "cinder_img_volume_type"
"""The property of an image that names the type of volumes made from it."""
NOT_MIGRATING = ("deleting", "error", "success")
"""Migration statuses of a volume that is not on its way."""


class NewVolume(Struct, frozen=True, kw_only=True):
    """What POST /volumes asks for, the request's form already checked."""

    size_gib: int | None = None
    name: str | None = None
    description: str | None = None
    volume_type: str | None = None
    zone: str | None = None
    metadata: dict[str, str] = {}
    image_id: str | None = None
    snapshot_id: str | None = None
    source_volume_id: str | None = None
    may_multiattach: bool = True
    """Whether policy lets the caller make volumes that several servers share."""
    reached_by: str = ""
    """The host of the server that it is made for; empty when any will do."""


_by_id = ById(VolumeRow)


def visible(tx: Session, who: Who, volume_id: str) -> VolumeRow:
    """Return the volume that this caller may see. Raises NotFound.

    A token for no project sees none: it has the word for it that copies of volumes have.
    """
    row = _by_id.find(tx, volume_id)
    if row is None or not (who.is_admin or row.project_id == who.project_id != ""):
        raise NotFound(f"Volume {volume_id} could not be found.")
    return row


async def create(asked: Asked, wanted: NewVolume) -> str:
    """Write a volume down, start what makes it, and return its id."""
    volume = asked.volume
    image = await _find_image(asked, wanted.image_id) if wanted.image_id else None
    resource = f"saga:{asked.operation.saga}" if asked.operation else ""

    def begin(tx: Session) -> str:
        earlier = fence.admit(tx, asked.operation, resource, verb="POST")
        if earlier is not None:
            return earlier.body
        source = _find_source(tx, asked.who, wanted)
        row = add(tx, asked, wanted, image, source)
        copying = CREATE_VOLUME_FROM_SNAPSHOT if wanted.snapshot_id else CLONE_VOLUME
        saga = CREATE_VOLUME if source is None else copying
        volume.sagas.start(tx, saga, _notes_of(asked, row, wanted, image, source), who=asked.who)
        fence.record(tx, asked.operation, resource, Answer(body=row.id), [row.id], verb="POST")
        return row.id

    return await volume.sagas.submit(begin)


def _notes_of(
    asked: Asked, row: VolumeRow, wanted: NewVolume, image: Image | None, source: Source | None
) -> CreateVolume:
    notes = CreateVolume(
        volume_id=row.id,
        size_gib=row.size_gib,
        asker=asked.operation.saga if asked.operation else "",
        reached_by=wanted.reached_by,
    )
    if image is not None:
        return replace(
            notes,
            image_id=image.id,
            image=filling.spec_of(image),
            image_metadata=filling.metadata_of(image),
        )
    if source is not None and source.snapshot_id:
        names = SnapshotName(source.volume_id, source.snapshot_id)
        return replace(notes, snapshot=names, backend=source.backend)
    if source is not None:
        return replace(notes, source_volume=source.volume_id, backend=source.backend)
    return notes


def _find_source(tx: Session, who: Who, wanted: NewVolume) -> Source | None:
    if wanted.snapshot_id:
        return snapshot_rows.find_source(tx, who, wanted.snapshot_id)
    if not wanted.source_volume_id:
        return None
    row = visible(tx, who, wanted.source_volume_id)
    if row.status != "available" or row.backend is None or is_migrating(row):
        raise Invalid(
            f"Invalid volume: Volume {row.id} is {row.status}, and only an available one is copied "
            "as it is. Nothing was made; take a snapshot of it, and make the new volume from that.",
        )
    return snapshot_rows.of(tx, row)


def add(
    tx: Session, asked: Asked, wanted: NewVolume, image: Image | None, source: Source | None
) -> VolumeRow:
    """Write a new volume down. Raises Invalid, Forbidden, OverQuota."""
    volume, who = asked.volume, asked.who
    volume_type = _find_type(tx, asked, wanted, image, source)
    multiattach = types.is_multiattach(volume_type)
    if multiattach and not wanted.may_multiattach:
        raise Forbidden("Policy doesn't allow volume:multiattach to be performed.")
    size_gib = _check_size(wanted, image, source)
    zone = check_zone(tx, volume, wanted.zone or (source.zone if source else None))
    quota.claim(tx, who.project_id, volume_type, size_gib)
    row = VolumeRow(
        id=str(uuid.uuid4()),
        project_id=who.project_id,
        user_id=who.user_id,
        name=wanted.name,
        description=wanted.description,
        size_gib=size_gib,
        status="creating",
        attach_status="detached",
        bootable=source is not None and source.bootable,
        multiattach=multiattach,
        volume_type_id=volume_type.id,
        zone=zone,
        labels=labels.merge({}, wanted.metadata, whole=True),
        snapshot_id=wanted.snapshot_id,
        source_volume_id=wanted.source_volume_id,
        image_metadata=source.image_metadata if source else {},
        borrowed_by="",
        borrowed_for="",
        created_at=volume.clock.now(),
    )
    tx.add(row)
    tx.flush()
    return row


def _find_type(
    tx: Session, asked: Asked, wanted: NewVolume, image: Image | None, source: Source | None
) -> TypeRow:
    """Return the type of a new volume: the one asked for, its image's, its source's, the usual.

    Raises NotFound for one asked for, Invalid for one that the image names. Source:
    facts/identity_image_placement.md 8.9.
    """
    named = image.properties.get(IMAGE_TYPE) if image and not wanted.volume_type else None
    if image is None or not named:
        usual = asked.volume.settings.default_type if source is None else source.type
        if source is not None and source.is_kept and not wanted.volume_type:
            return _type_of_kept(tx, asked, source)
        return types.named(tx, asked.who, wanted.volume_type or usual)
    try:
        return types.named(tx, asked.who, named)
    except NotFound as error:
        raise Invalid(
            f"Invalid input received: Image {image.id} names the volume type {named} in "
            f"{IMAGE_TYPE}, which could not be found. Nothing was made; name a volume type "
            "yourself, or change the image's property.",
        ) from error


def _type_of_kept(tx: Session, asked: Asked, source: Source) -> TypeRow:
    """Return the type of a volume from a snapshot that a former project kept of another's volume.

    The usual one where the type that the volume has by now is private to others.
    """
    try:
        return types.named(tx, asked.who, source.type)
    except NotFound:
        return types.named(tx, asked.who, asked.volume.settings.default_type)


def _check_size(wanted: NewVolume, image: Image | None, source: Source | None) -> int:
    size_gib = wanted.size_gib
    if source is not None:
        if size_gib is not None and size_gib < source.size_gib:
            kind = "snapshot" if source.snapshot_id else "volume"
            raise Invalid(
                f"Invalid input received: Volume size {size_gib}GB cannot be smaller than the "
                f"{kind} size {source.size_gib}GB. They must be >= original {kind} size.",
            )
        return size_gib or source.size_gib
    if size_gib is None:
        raise Invalid(
            "Invalid input received: The size is missing. Give the new volume a size in GiB.",
        )
    if image is None:
        return size_gib
    whole = image.size_gib
    if size_gib < whole:
        raise Invalid(
            f"Invalid input received: Size of specified image {whole}GB is larger than volume size "
            f"{size_gib}GB. Ask for a bigger volume.",
        )
    if size_gib < image.min_disk_gib:
        raise Invalid(
            f"Invalid input received: Volume size {size_gib}GB cannot be smaller than the image "
            f"minDisk size {image.min_disk_gib}GB. Ask for a bigger volume.",
        )
    return size_gib


def check_zone(tx: Session, volume: Volume, zone: str | None) -> str:
    """Return the zone that is asked for, or the usual one. Raises Invalid for an unknown one."""
    if zone is None or zone == volume.settings.default_zone:
        return volume.settings.default_zone
    if tx.execute(select(BackendRow.name).where(BackendRow.zone == zone).limit(1)).first() is None:
        raise Invalid(
            f"Invalid input received: Availability zone '{zone}' is invalid. Nothing was made; "
            "openstack availability zone list --volume names those that there are.",
        )
    return zone


async def _find_image(asked: Asked, image_id: str) -> Image:
    try:
        image = await asked.volume.images.show(asked.who, image_id)
    except (NotFound, Forbidden) as error:
        raise Invalid(
            "Invalid input received: Invalid image identifier or unable to access requested image.",
            private=str(error),
        ) from error
    if not image.is_active:
        raise Invalid(
            f"Invalid input received: Image {image_id} is not active, it is {image.status}.",
        )
    filling.refuse_without_data(image)
    if image.disk_format not in filling.FORMATS:
        raise Invalid(
            f"Invalid input received: Image {image_id} has the disk format {image.disk_format}; "
            f"volumes are filled from {' and '.join(filling.FORMATS)} only. Convert it first.",
        )
    return image


def is_migrating(row: VolumeRow) -> bool:
    """Whether a volume is on its way to another backend."""
    return row.migration_status not in (None, *NOT_MIGRATING)


def refuse_migrating(row: VolumeRow) -> None:
    """Raise Invalid while a volume is on its way to another backend."""
    if is_migrating(row):
        raise Invalid(
            f"Invalid volume: Volume {row.id} is on its way to another backend (migration_status "
            f"{row.migration_status}). Nothing was changed; ask again when it is there.",
        )


def require(row: VolumeRow, *, refused: tuple[str, ...]) -> None:
    """Raise Invalid while the volume is in one of the refused states."""
    if row.status in refused:
        raise Invalid(
            f"Invalid volume: Volume {row.id} cannot be changed while it is {row.status}. Nothing "
            "was changed.",
        )
