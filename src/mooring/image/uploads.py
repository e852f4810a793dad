"""Uploads: an image is `saving` exactly while one living process receives its data.

Whoever ends an upload deletes its row: the process that finished it, the one that gave it up, or
the one that found its owner dead. Only who deleted it may change the image, so each upload ends
once. Source: facts/identity_image_placement.md 8.2 and 8.7.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import structlog
from msgspec import Struct
from sqlalchemy import delete, func, insert, select, update

from mooring import qcow2
from mooring.errors import Conflict, Invalid, MooringError, OverQuota
from mooring.image import contents, files, images, quotas
from mooring.image.quotas import Quota
from mooring.image.tables import ImageRow, UploadRow
from mooring.limits import IMAGE_BEAT_S, IMAGE_CHUNK_BYTES, IMAGE_IDLE_S, IMAGE_LEASE_S

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement
    from sqlalchemy.orm import Session

    from mooring.image.files import Writer, Written
    from mooring.image.images import Require
    from mooring.image.records import Record
    from mooring.image.service import Image, ImageSettings
    from mooring.who import Who

log = structlog.get_logger()


class Upload(Struct, frozen=True):
    """One upload under way."""

    id: str
    image_id: str
    disk_format: str
    container_format: str
    quota: Quota
    """What its image's owner might have when it began: it ends under that."""
    room_bytes: int | None
    """How much more data that was; None for any."""

    @property
    def data_name(self) -> str:
        """The file that it fills."""
        return images.data_name(self.image_id, self.id)


async def receive(
    service: Image, who: Who, image_id: str, chunks: AsyncIterator[bytes], *, require: Require
) -> None:
    """Take an image's data as they come; the image is active at the end, or queued as before.

    Raises NotFound, Forbidden; Conflict unless the image is queued; Invalid (415) when the data
    are not in the declared format, (408) when they stop coming; OverQuota, NoCapacity; Unavailable
    when nobody can tell the quota.
    """
    owner = await service.store.read(lambda tx: images.visible(tx, who, image_id).owner)
    quota = await quotas.find(service, owner)
    upload_id = uuid4().hex
    # Known before its row exists, so that nobody takes the row for a dead process's.
    service.uploads.add(upload_id)
    writer: Writer | None = None
    try:
        begin = partial(_begin, service=service, upload_id=upload_id, quota=quota, require=require)
        upload = await service.store.write(lambda tx: begin(tx, who, image_id))
        writer = await asyncio.to_thread(
            files.Writer,
            service.directory,
            upload.data_name,
            start_bytes=qcow2.HEADER_BYTES,
            reserve_bytes=service.settings.reserve_bytes,
        )
        service.probe.at("image.upload/file/opened")
        await _fill(writer, chunks, upload, service.settings)
        written = await asyncio.to_thread(writer.flush)
        virtual_size = contents.read_virtual_size(
            upload.disk_format, upload.container_format, written
        )
        await asyncio.to_thread(writer.publish)
        service.probe.at("image.upload/file/published")
        await service.store.write(lambda tx: _settle(tx, service, upload, written, virtual_size))
    except BaseException:
        await asyncio.shield(_abandon(service, image_id, upload_id, writer))
        raise
    service.uploads.discard(upload_id)


async def recover(service: Image) -> None:
    """End what dead processes left: uploads of theirs, and files that belong to no image.

    Called at the start, and again whenever somebody may have died.
    """
    # Files first: whoever makes one after this look has made its row before.
    there = await asyncio.to_thread(files.listing, service.directory)
    dead = await service.store.read(lambda tx: _dead(tx, service))
    if dead:
        ended = await service.store.write(lambda tx: _end_dead(tx, service))
        log.warning("ended uploads of dead processes", images=ended)
    kept = await service.store.read(images.data_names)
    await asyncio.to_thread(files.remove_strays, service.directory, there, kept)


async def watch(service: Image) -> None:
    """Say at intervals that this process lives, and end what dead ones left; until cancelled."""
    while True:
        await service.clock.sleep(IMAGE_BEAT_S)
        try:
            if service.uploads:
                await service.store.write(lambda tx: _beat(tx, service))
            if await service.store.read(lambda tx: _dead(tx, service)):
                await recover(service)
        except (MooringError, OSError) as error:
            log.warning("cannot look after uploads now", error=str(error))


async def _fill(
    writer: Writer, chunks: AsyncIterator[bytes], upload: Upload, settings: ImageSettings
) -> None:
    """Write all chunks, gathered to larger ones. Raises Invalid, OverQuota, NoCapacity."""
    size, waiting = 0, bytearray()
    while (chunk := await _next(chunks)) is not None:
        size += len(chunk)
        if size > settings.size_bytes:
            raise too_large(settings.size_bytes)
        if upload.room_bytes is not None and size > upload.room_bytes:
            raise quotas.over(upload.quota)
        waiting += chunk
        if len(waiting) >= IMAGE_CHUNK_BYTES:
            await asyncio.to_thread(writer.write, bytes(waiting))
            waiting.clear()
    if waiting:
        await asyncio.to_thread(writer.write, bytes(waiting))


async def _next(chunks: AsyncIterator[bytes]) -> bytes | None:
    """Return the next chunk, None at the end. Raises Invalid (408) when none comes."""
    try:
        async with asyncio.timeout(IMAGE_IDLE_S):
            return await anext(chunks, None)
    except TimeoutError as error:
        raise Invalid(
            f"The upload was given up: no data came for {IMAGE_IDLE_S:g} seconds. The image is "
            "queued again; upload it once more.",
            status=408,
        ) from error


def too_large(most: int) -> OverQuota:
    """Return the error for an image that is larger than the service takes."""
    return OverQuota(
        f"The image is larger than {most} bytes, the most that is taken here. It is queued again; "
        "upload a smaller one."
    )


async def _abandon(service: Image, image_id: str, upload_id: str, writer: Writer | None) -> None:
    """Undo an upload: no file, and the image queued.

    Who was cancelled while the last transaction ran finds it committed: then there is nothing to
    undo. Who finds the upload ended by others has only the file to forget.
    """
    try:
        active = await service.store.write(
            lambda tx: _give_up(tx, image_id, upload_id, service.clock.now())
        )
        if writer is not None and not active:
            await asyncio.to_thread(writer.discard)
    except Exception as error:  # noqa: BLE001  (the watch tries again: the upload is no longer ours)
        log.warning("could not end an upload", image_id=image_id, error=str(error))
    finally:
        service.uploads.discard(upload_id)


def _give_up(tx: Session, image_id: str, upload_id: str, now: datetime) -> bool:
    """End an upload; tell whether it had ended well before."""
    _end(tx, [upload_id], now)
    query = select(ImageRow.data_name).where(ImageRow.id == image_id)
    return tx.scalar(query) == images.data_name(image_id, upload_id)


def _begin(
    tx: Session,
    who: Who,
    image_id: str,
    *,
    service: Image,
    upload_id: str,
    quota: Quota,
    require: Require,
) -> Upload:
    # What the data is checked against stays so: a format, and whose quota it counts for.
    image = images.changeable(tx, who, image_id)
    require("upload_image", image.target())
    if image.disk_format is None or image.container_format is None:
        raise Invalid(
            f"Image {image_id} has no disk_format or container_format. Set both before you upload."
        )
    query = update(ImageRow).where(ImageRow.id == image_id, ImageRow.status == "queued")
    now = service.clock.now()
    begun = query.values(status="saving", updated_at=now).returning(ImageRow.id)
    if tx.scalar(begun) is None:
        raise _not_queued(image)
    if image.owner != quota.owner:
        raise Conflict(f"Image {image_id} was given to another project just now. Upload it again.")
    beat = _now(service)
    tx.execute(
        insert(UploadRow).values(id=upload_id, image_id=image_id, owner=service.owner, beat_at=beat)
    )
    quotas.check_uploading(tx, quota)
    room = quotas.room_bytes(tx, quota)
    if room == 0:
        raise quotas.over(quota)
    return Upload(upload_id, image_id, image.disk_format, image.container_format, quota, room)


def _not_queued(image: Record) -> Conflict:
    why = "another upload is under way" if image.status == "saving" else "it has data already"
    return Conflict(
        f"Image {image.id} is {image.status}: {why}. Only a queued image takes data.",
    )


def _settle(
    tx: Session, service: Image, upload: Upload, written: Written, virtual_size: int | None
) -> None:
    """Make the image active, unless others have taken what its project may have meanwhile."""
    room = quotas.room_bytes(tx, upload.quota)
    if room is not None and written.size_bytes > room:
        raise quotas.over(upload.quota)
    _finish(tx, upload, written, virtual_size, service.clock.now())


def _finish(
    tx: Session, upload: Upload, written: Written, virtual_size: int | None, now: datetime
) -> None:
    ended = delete(UploadRow).where(UploadRow.id == upload.id).returning(UploadRow.id)
    values: Mapping[str, Any] = {
        "status": "active",
        "data_name": upload.data_name,
        "size_bytes": written.size_bytes,
        "virtual_size_bytes": virtual_size,
        "checksum": written.checksum,
        "os_hash_algo": files.HASH,
        "os_hash_value": written.hash_value,
        "updated_at": now,
    }
    change = update(ImageRow).where(ImageRow.id == upload.image_id, ImageRow.status == "saving")
    gone = tx.scalar(ended) is None
    if gone or tx.scalar(change.values(**values).returning(ImageRow.id)) is None:
        raise files.ended()


def _end(tx: Session, upload_ids: Collection[str], now: datetime) -> list[str]:
    """End uploads without their data; return the images that are queued again."""
    gone = delete(UploadRow).where(UploadRow.id.in_(upload_ids)).returning(UploadRow.image_id)
    queued = list(tx.scalars(gone))
    again = update(ImageRow).where(ImageRow.id.in_(queued), ImageRow.status == "saving")
    tx.execute(again.values(status="queued", updated_at=now))
    return queued


def _end_dead(tx: Session, service: Image) -> list[str]:
    return _end(tx, _dead(tx, service), service.clock.now())


def _dead(tx: Session, service: Image) -> list[str]:
    """Return the uploads that no living process receives.

    Alone on its database, a process knows its own uploads, and all others are a predecessor's.
    Where several share one, an upload is dead once its owner has not been heard of for a while,
    by the database's clock.
    """
    query = select(UploadRow.id)
    if service.store.kind == "sqlite":
        return [each for each in tx.scalars(query) if each not in service.uploads]
    lease = timedelta(seconds=IMAGE_LEASE_S)
    return list(tx.scalars(query.where(UploadRow.beat_at < func.clock_timestamp() - lease)))


def _beat(tx: Session, service: Image) -> None:
    mine = update(UploadRow).where(UploadRow.id.in_(set(service.uploads)))
    tx.execute(mine.values(beat_at=_now(service)))


def _now(service: Image) -> ColumnElement[datetime] | datetime:
    if service.store.kind == "sqlite":
        return service.clock.now()
    return func.clock_timestamp()
