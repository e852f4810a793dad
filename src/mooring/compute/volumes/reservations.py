"""The empty attachment that keeps a volume for a server: made, found again, and freed (specs 001).

Whoever made one and does not know whether, or how many times, takes back what was made with it:
`free` undoes the very step, `free_made` and `free_unnoted` follow behind another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.hosts import guests
from mooring.compute.volumes import disk_places, old_calls
from mooring.errors import Conflict, NotFound, Unavailable
from mooring.saga.define import may_be_repeated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mooring.clients.volume import Attachment
    from mooring.compute.service import Compute
    from mooring.compute.volumes.disks import Disk
    from mooring.fence.operation import Operation
    from mooring.saga.define import Run


async def reserve(run: Run[Compute], disk: Disk, *, as_user: bool = True) -> str:
    """Make an empty attachment as the user, or find the one made before; return its id.

    A step behind the answer makes it as the service: the user's token may have ended. By the old
    calls there is none, and `BY_OLD_CALLS` stands for it.

    Raises Invalid or Conflict when the volume's state forbids it, NotFound.
    """
    if disk.old_calls:
        return await old_calls.reserve(run, disk, as_user=as_user)
    if may_be_repeated(run):
        mine = await find_own(run, disk)
        if mine:
            return mine[0]
    made = await run.service.volumes.create_attachment(
        run.user if as_user else None, disk.volume_id, disk.server_id, operation=run.operation
    )
    return made.id


async def free(run: Run[Compute], disk: Disk) -> None:
    """Delete every attachment that `reserve` made.

    Raises Conflict when the one that the disk names will not go, now or for long. What nobody would
    remember is Unavailable, and asked again for as long as it takes.
    """
    if disk.old_calls:
        failure = await guests.give_up_late(run, old_calls.free(run, disk))
        if failure:
            raise Conflict(failure) if disk.reserved else Unavailable(failure)
        return
    for attachment_id in await _bury(run, disk, run.operation):
        failure = await guests.give_up_late(run, delete(run, attachment_id, run.operation))
        if failure:
            is_known = attachment_id == disk.attachment_id
            raise Conflict(failure) if is_known else Unavailable(failure)


async def free_made(
    run: Run[Compute], disk: Disk, made_in: Operation, *, keeps: Iterable[str] = ()
) -> None:
    """Delete what `reserve` made in a step of before, and the one that the disk names.

    It makes no more from now on. Those in `keeps` stay.
    """
    for attachment_id in sorted({*await _bury(run, disk, made_in)} - {*keeps}):
        await delete(run, attachment_id, made_in)


async def free_unnoted(run: Run[Compute], disk: Disk, made_in: Operation) -> None:
    """Delete what `reserve` made in a step of before, or kept by the old calls; noted ones stay."""
    if disk.old_calls:
        await old_calls.end_unanswered(run, disk, made_in)
        return
    await free_made(run, disk, made_in, keeps=await _noted(run, disk))


async def delete(run: Run[Compute], attachment_id: str, of: Operation | None = None) -> None:
    """Delete an attachment beside what the step, or another operation, asks for; gone is fine."""
    operation = guests.other(of or run.operation, f"delete.{attachment_id}")
    await run.service.volumes.delete_attachment(None, attachment_id, operation=operation)


async def find(run: Run[Compute], attachment_id: str | None) -> Attachment | None:
    """Return an attachment as the volume service has it; None: there is none, or none is named."""
    if not attachment_id:
        return None
    try:
        return await run.service.volumes.show_attachment(None, attachment_id)
    except NotFound:
        return None


async def find_own(run: Run[Compute], disk: Disk) -> list[str]:
    """Return attachments of this server that are neither `known` nor of any place."""
    there = await run.service.volumes.attachments(None, volume_id=disk.volume_id)
    noted = await _noted(run, disk)
    return [
        found.id
        for found in there
        if found.server_id == disk.server_id and found.id not in {*disk.known, *noted}
    ]


async def _bury(run: Run[Compute], disk: Disk, made_in: Operation) -> list[str]:
    """See that a reservation makes no more; return what it made, with the one the disk names."""
    made = await run.service.volumes.session.bury(made_in)
    if made is None:
        made = await find_own(run, disk)
    return sorted({*made, disk.attachment_id or ""} - {""})


async def _noted(run: Run[Compute], disk: Disk) -> set[str]:
    """Return every attachment of the volume that a place has."""
    return await run.service.store.read(lambda tx: disk_places.attachments_of(tx, disk.volume_id))
