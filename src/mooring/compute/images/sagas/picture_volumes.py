"""Make an image of a server that boots from a volume: a snapshot of each volume, and their names.

Nothing of the server changes, so nobody is kept from it: whoever deletes it, or takes a volume from
it, does not wait for the image. The snapshots are taken each in turn with what else is done to its
volume, and the image is usable once all of them are; until then a failure leaves none of it.
Facts: compute.md 1.4 and 13.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring import captured_images
from mooring.clients.snapshots import SnapshotClient
from mooring.compute.actions.story import Told, tell
from mooring.compute.hosts import guests
from mooring.compute.images.sagas.volume_picture_notes import (
    PictureVolumes,
    every,
    find,
    new_image,
    new_snapshot,
    with_snapshot,
)
from mooring.compute.snapshots import snapshot_calls
from mooring.errors import Conflict, NotFound
from mooring.saga.define import Each, Park, Run, Saga, Step, exclusive, may_be_repeated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mooring.compute.service import Compute


_CREATE = "create_record"
_THERE = ("available", "backing-up")
"""Statuses of a snapshot that is taken; whoever backs it up leaves it as it is."""


async def take_snapshot(notes: PictureVolumes, volume_id: str, run: Run[Compute]) -> PictureVolumes:
    """Have a snapshot taken of a volume, as the user, or find the one that was begun before."""
    client, new = _client(run), new_snapshot(notes, volume_id)
    if may_be_repeated(run):
        mine = await client.marked(volume_id, new.metadata)
        if mine:
            return with_snapshot(notes, volume_id, mine[0].id, mine[0].size_gib)
    made = await client.create(run.user, new, operation=run.operation)
    return with_snapshot(notes, volume_id, made.id, made.size_gib)


async def delete_snapshot(notes: PictureVolumes, volume_id: str, run: Run[Compute]) -> None:
    """See that there is no such snapshot; one that is still being taken is waited for."""
    client = _client(run)
    made = await client.bury(run.operation, new_snapshot(notes, volume_id))
    deletion = guests.other(run.operation, "delete")
    for snapshot_id in sorted({*made, find(notes, volume_id).snapshot_id} - {""}):
        # Refused while somebody is at work on it, and asked for again until it is not.
        await client.delete(None, snapshot_id, operation=deletion)


async def create_record(notes: PictureVolumes, run: Run[Compute]) -> None:
    """Make the image, whose id is the answer."""
    await captured_images.create_record(run.service.images, new_image(notes), run)


async def delete_record(notes: PictureVolumes, run: Run[Compute]) -> None:
    """See that there is no image, and that none comes late."""
    await captured_images.delete_record(run.service.images, notes.image_id, run)


async def keep_whole(notes: PictureVolumes, run: Run[Compute]) -> None:
    """Leave an image that servers can be made of, and its snapshots; else remove all of it."""
    images = run.service.images
    if await captured_images.delete_unfinished(images, notes.image_id, run, _CREATE):
        return
    # The newest first, as on the way back.
    for volume_id in reversed(every(notes)):
        await delete_snapshot(notes, volume_id, run)


async def await_snapshot(notes: PictureVolumes, volume_id: str, run: Run[Compute]) -> None:
    """Rest until a snapshot is there. Raises Conflict when it failed, or was deleted."""
    snapshot_id = find(notes, volume_id).snapshot_id
    try:
        status = (await _client(run).show(None, snapshot_id)).status
    except NotFound:
        status = "deleted"
    if status == "creating":
        # The volume service gives a snapshot up long before this does.
        raise Park(seconds=snapshot_calls.pause_s(run))
    if status not in _THERE:
        raise Conflict(
            f"The snapshot of volume {volume_id} is in status {status}. No image was made of "
            f"server {notes.server_id}, and its other snapshots are deleted; ask for another image."
        )


async def activate_image(notes: PictureVolumes, run: Run[Compute]) -> None:
    """Give the image its data, which are none: from here on servers can be made of it.

    Raises Conflict when somebody deleted it.
    """

    async def open_data() -> AsyncIterator[bytes]:
        return _nothing()

    of = f"server {notes.server_id}"
    await captured_images.upload(run.service.images, notes.image_id, of, open_data)


async def _nothing() -> AsyncIterator[bytes]:
    for chunk in ():
        yield chunk


def _client(run: Run[Compute]) -> SnapshotClient:
    return SnapshotClient(run.service.volumes.session)


def _describe(notes: PictureVolumes) -> Told:
    del notes
    return Told(event="api_snapshot_instance")


PICTURE_VOLUMES = Saga(
    "compute.picture_volumes",
    PictureVolumes,
    Each("taken", every, Step("take_snapshot", take_snapshot, undo=delete_snapshot)),
    Step(_CREATE, create_record, undo=delete_record),
    Each("awaited", every, Step("await_snapshot", await_snapshot)),
    Step("activate_image", activate_image),
    locks=lambda notes: [exclusive(f"image:{notes.image_id}")],
    answered_after=_CREATE,
    pivot="activate_image",
    failed_end=(Step("keep_whole", keep_whole),),
    # A guest whose disk had a snapshot for a while writes to a file of another name since; a
    # snapshot that failed has its message for the user.
    residue=("faults", "instance_actions", "former_images", "connections", "guests", "messages"),
    story=tell(_describe),
)
