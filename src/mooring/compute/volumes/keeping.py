"""What a server keeps of its volumes when an administrator ends an operation that had them in hand.

The operation may have exported a volume without saying that the server has it; a rebuild may have
made an empty attachment that no row knows, and deleted the one before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.compute.hosts import guests
from mooring.compute.volumes import devices, disk_places, disks, reservations
from mooring.errors import MooringError
from mooring.saga.define import Together
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from sqlalchemy.orm import Session

    from mooring.clients.volume import Attachment
    from mooring.compute.service import Compute
    from mooring.saga.define import Run


class _Kept(Struct, frozen=True):
    """A volume that the server keeps, at one host, by the attachment that its row names.

    Without one, "", it came by the old calls: the volume service knows it as attached.
    """

    block_device_id: str
    volume_id: str
    host: str
    attachment_id: str


class _Known(Struct, frozen=True):
    kept: list[_Kept]
    attachments: set[str]
    """Those of every volume of the server, also of one that is being freed."""


async def settle(run: Run[Compute], server_id: str) -> Together | None:
    """Leave no attachment of a volume that the server keeps half made, and none that nobody knows.

    Where the one that a row names is gone, the one that was to take its place does so. Raises
    Unavailable.
    """
    listed = await run.service.volumes.attachments(None, server_id=server_id)
    known = await run.service.store.read(lambda tx: _read(tx, server_id))
    there = {found.id: found for found in listed}
    adopted: list[_Kept] = []
    for kept in known.kept:
        spare = [
            found
            for found in listed
            if found.volume_id == kept.volume_id and found.id not in known.attachments
        ]
        if not kept.attachment_id:
            spare = [found for found in spare if found.status != "attached"]
        held = there.get(kept.attachment_id)
        if held is None and spare and kept.attachment_id:
            held = spare.pop(0)
            adopted.append(_Kept(kept.block_device_id, kept.volume_id, kept.host, held.id))
        if held is not None and held.status == "attaching":
            await _complete(run, held)
        for found in spare:
            await _ask(reservations.delete(run, found.id))
    return Together(lambda tx: _adopt(tx, run, adopted)) if adopted else None


def _read(tx: Session, server_id: str) -> _Known:
    kept: list[_Kept] = []
    attachments: set[str] = set()
    rows = devices.of_server(tx, server_id)
    attached = {row.id for row in disks.attached(rows)}
    for row in rows:
        for place in disk_places.of_device(tx, row.id):
            attachments.add(place.attachment_id or "")
            if row.id in attached:
                name = place.attachment_id or ""
                kept.append(_Kept(row.id, row.volume_id or "", place.host, name))
    return _Known(kept, attachments)


def _adopt(tx: Session, run: Run[Compute], adopted: list[_Kept]) -> None:
    for kept in adopted:
        named = {"attachment_id": kept.attachment_id, "state": "reserved"}
        disk_places.change(tx, kept.block_device_id, kept.host, run.now(), **named)


async def _complete(run: Run[Compute], attachment: Attachment) -> None:
    operation = guests.other(run.operation, f"complete.{attachment.id}")
    volumes = run.service.volumes
    await _ask(volumes.complete_attachment(None, attachment.id, operation=operation))


async def _ask(work: Awaitable[None]) -> None:
    try:
        await work
    except MooringError as error:
        # What the volume service refuses for good is its own to settle; the reset goes on.
        if is_unavailable(error):
            raise
