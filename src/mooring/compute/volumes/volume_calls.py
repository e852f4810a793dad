"""Calls to the volume service that sagas share: finding one's own work, waiting for data."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from mooring.compute.hosts import guests
from mooring.compute.volumes import disk_places
from mooring.errors import Conflict, MooringError, NotFound
from mooring.limits import COMPUTE_UNDO_ATTEMPTS, COMPUTE_VOLUME_POLL_S
from mooring.saga.define import Park
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from mooring.compute.service import Compute
    from mooring.saga.define import Run

_NOT_READY = frozenset({"creating", "downloading"})


async def reserve_volume(
    run: Run[Compute],
    server_id: str,
    volume_id: str,
    *,
    known: Collection[str],
    as_user: bool = True,
) -> str:
    """Make an empty attachment as the user, or find the one made before; return its id.

    A step behind the answer makes it as the service: the user's token may have ended.

    Raises Invalid or Conflict when the volume's state forbids it, NotFound.
    """
    volumes = run.service.volumes
    if guests.may_be_repeated(run):
        mine = await find_own_attachments(run, server_id, volume_id, known=known)
        if mine:
            return mine[0]
    caller = run.user if as_user else None
    made = await volumes.create_attachment(caller, volume_id, server_id, operation=run.operation)
    return made.id


async def delete_made_attachments(
    run: Run[Compute], server_id: str, volume_id: str, *, known: Collection[str], remembered: str
) -> str:
    """Delete every attachment that this step made; return "" or, when one will not go, why.

    Not knowing what was made is no reason to stop: that is Unavailable, and asked again.
    """
    volumes = run.service.volumes
    made = await volumes.session.bury(run.operation)
    if made is None:
        made = await find_own_attachments(run, server_id, volume_id, known=known)
    for attachment_id in sorted({*made, remembered} - {""}):
        deleting = volumes.delete_attachment(
            None, attachment_id, operation=guests.other(run.operation, "delete")
        )
        failure = await guests.give_up_late(run, deleting)
        if failure and attachment_id == remembered:
            return failure
        if failure:
            # Nobody would remember it: stay with it for as long as it takes.
            raise Conflict(failure)
    return ""


async def find_own_attachments(
    run: Run[Compute], server_id: str, volume_id: str, *, known: Collection[str]
) -> list[str]:
    """Return attachments of this server that are neither `known` nor of any place."""
    there = await run.service.volumes.attachments(None, volume_id=volume_id)
    rows = await run.service.store.read(lambda tx: disk_places.attachments_of(tx, volume_id))
    return [
        found.id
        for found in there
        if found.server_id == server_id and found.id not in known and found.id not in rows
    ]


async def end_attachment(run: Run[Compute], host: str | None, disk: guests.Disk) -> None:
    """End the export of a volume and free it, by attachment or by the old calls. Gone is fine."""
    volumes = run.service.volumes
    if disk.attachment_id:
        await volumes.delete_attachment(None, disk.attachment_id, operation=run.operation)
        return
    try:
        volume = await volumes.show(None, disk.volume_id)
        mine = [found for found in volume.attachments if found.server_id == disk.server_id]
        if not mine:
            return
        arguments = {"connector": await _old_connector(run, host)}
        await volumes.act(
            None,
            disk.volume_id,
            "os-terminate_connection",
            arguments,
            operation=guests.other(run.operation, "terminate"),
        )
        await volumes.act(
            None,
            disk.volume_id,
            "os-detach",
            {"attachment_id": mine[0].attachment_id},
            operation=run.operation,
        )
    except NotFound:
        return


async def _old_connector(run: Run[Compute], host: str | None) -> dict[str, Any]:
    """Return the connector of a host, or as much as is known of one that is lost."""
    if host is not None and not await guests.is_lost(run, host):
        return await guests.connector(run, host)
    return {"host": host or ""}


async def wait_until_ready(run: Run[Compute], volume_id: str) -> None:
    """Rest until the volume has its data. Raises Conflict: in error; Unavailable: after long."""
    volume = await run.service.volumes.show(None, volume_id)
    if volume.status in _NOT_READY:
        raise Park(seconds=COMPUTE_VOLUME_POLL_S, timeout_s=run.service.settings.volume_ready_s)
    if volume.status.startswith("error"):
        raise Conflict(f"Volume {volume_id} is in status {volume.status}; it cannot be attached.")


async def say_in_use(run: Run[Compute], attachment_id: str) -> None:
    """Tell the volume service that a host holds on to an attachment which should have gone."""
    operation = guests.other(run.operation, "hold")
    try:
        await run.service.volumes.complete_attachment(None, attachment_id, operation=operation)
    except MooringError as error:
        if is_unavailable(error) and run.attempt < COMPUTE_UNDO_ATTEMPTS:
            raise
