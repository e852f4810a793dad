"""Images whose data a host has captured: what every service does that makes one.

The record is made as whoever asked, whose project has the image and whose quota counts; the data
come later than a token may live, so the service user brings them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.errors import Conflict, Forbidden, NotFound
from mooring.saga.define import Park, may_be_repeated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

    from mooring.clients.image import Image, ImageClient, NewImage
    from mooring.fence.operation import Operation
    from mooring.saga.define import Run

_LOOK_AGAIN_S = 5.0
IMAGE_STAYS: Mapping[str, Any] = {"image_stays": True}
"""In the detail of the refusal to delete an image that has its data."""


async def create_record(images: ImageClient, new: NewImage, run: Run[Any]) -> None:
    """Make the image without data, or find it made by this step. Raises what the service refuses.

    A service without operations has it from an earlier try, if its id was nobody's before.
    """
    try:
        await images.create(run.user, new, operation=run.operation)
    except Conflict:
        if not may_be_repeated(run):
            raise
        await images.show(run.user, new.id)


async def delete_record(images: ImageClient, image_id: str, run: Run[Any]) -> None:
    """See that there is no image, whatever it was before, and that none comes late."""
    await images.session.bury(run.operation)
    try:
        await _delete(images, image_id)
    except NotFound:
        return


async def take_back(images: ImageClient, image_id: str, run: Run[Any]) -> None:
    """See that there is no image, and that none comes late; the undo of `create_record`.

    Raises Conflict, with `IMAGE_STAYS`, for one that has its data: its owner was shown an image
    that can be used, so it stays whatever becomes of the operation.
    """
    if await _is_kept(images, image_id, run.operation):
        raise Conflict(f"Image {image_id} has all of its data already, and stays.", **IMAGE_STAYS)


async def delete_unfinished(
    images: ImageClient, image_id: str, run: Run[Any], made_in: str
) -> bool:
    """See that there is no image without data, and return whether there is one that has them."""
    return await _is_kept(images, image_id, run.operation.of_step(made_in))


async def _is_kept(images: ImageClient, image_id: str, made_by: Operation) -> bool:
    try:
        found = await images.show(None, image_id)
    except NotFound:
        found = None
    if found is not None and found.is_whole:
        return True
    await images.session.bury(made_by)
    if found is not None:
        await _delete(images, image_id)
    return False


async def upload(
    images: ImageClient,
    image_id: str,
    of: str,
    open_data: Callable[[], Awaitable[AsyncIterator[bytes]]],
) -> None:
    """Carry a capture to the image service, unless the image has it already.

    `of` is what was captured, as "server 1". An upload whose process died is `saving` until the
    service finds out; then it is `queued` again, and this one begins anew. Raises Conflict for an
    image that somebody deleted or filled, and what `open_data` raises.
    """
    image = await _find(images, image_id, of)
    if image.is_whole:
        return
    if image.status == "saving":
        raise Park(seconds=_LOOK_AGAIN_S)
    data = await open_data()
    try:
        await images.upload(None, image_id, data)
    except Conflict as error:
        # The try before this one goes on at the service, or has come to its end there.
        found = await _find(images, image_id, of)
        if not found.is_whole and found.status != "saving":
            raise
        raise Park(seconds=_LOOK_AGAIN_S) from error


async def followed(
    run: Run[Any], pieces: AsyncIterator[bytes], size_bytes: int, sent: int = 0
) -> AsyncIterator[bytes]:
    """Yield the pieces of a capture, the first of them after `sent` bytes; tell how far it is.

    Whether it is there to its end only who takes it can say.
    """
    told = 0
    async for piece in pieces:
        yield piece
        sent += len(piece)
        percent = min(99, 100 * sent // max(1, size_bytes))
        if percent > told:
            told = percent
            await run.progress(percent)


async def _delete(images: ImageClient, image_id: str) -> None:
    """Delete an image, also one that somebody protected before it had its data."""
    try:
        await images.delete(None, image_id)
    except Forbidden:
        await images.protect(None, image_id, protected=False)
        await images.delete(None, image_id)


async def _find(images: ImageClient, image_id: str, of: str) -> Image:
    try:
        return await images.show(None, image_id)
    except NotFound as error:
        raise Conflict(
            f"Image {image_id} was deleted before it had the data of {of}. Ask for another one."
        ) from error
