"""Attachments: what a client may ask for, and when. Source: facts/block_storage.md 2.

Policy is checked by the route. Errors: NotFound for what the caller may not see; Invalid or
Conflict for a state that forbids it, as upstream has the codes; whatever the storage answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from sqlalchemy import bindparam
from sqlalchemy.orm import Session

from mooring import typed
from mooring.errors import Conflict, NotFound
from mooring.fence import table as fence
from mooring.fence.table import Answer
from mooring.saga import journal
from mooring.store.loaded import ById, Loaded
from mooring.store.prepared import Change
from mooring.volume.attachments import connections, guard, reserving
from mooring.volume.attachments.reserving import Asked, NewAttachment
from mooring.volume.attachments.sagas.delete_attachment import DELETE_ATTACHMENT, DeleteAttachment
from mooring.volume.backends import backends
from mooring.volume.tables import AttachmentRow, VolumeRow
from mooring.volume.volumes import notices, statuses, volumes
from mooring.web.identity import is_service

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.volume.service import Volume
    from mooring.who import Who


class Begun(Struct, frozen=True):
    """What a request led to: the attachment, and the saga (if any) whose answer it waits for.

    This is what the fence keeps of an answer: the answer itself holds connection data.
    """

    attachment_id: str
    volume_id: str
    saga_id: str = ""


_change = Change(AttachmentRow)
_by_id, _volumes = ById(AttachmentRow), ById(VolumeRow)
_of_volume = Loaded(
    AttachmentRow,
    lambda columns: columns.volume_id == bindparam("of_volume"),
    order_by=lambda columns: [columns.created_at, columns.id],
)


def visible(tx: Session, who: Who, attachment_id: str) -> AttachmentRow:
    """Return the attachment that this caller may see. Raises NotFound."""
    row = _by_id.find(tx, attachment_id)
    if row is None or not (who.is_admin or row.project_id == who.project_id != ""):
        raise NotFound(f"VolumeAttachment {attachment_id} could not be found.")
    return row


async def create(asked: Asked, wanted: NewAttachment) -> str:
    """Reserve a volume, connect it when a connector came along, and return the attachment's id.

    With a connector, a failure leaves nothing behind.
    """
    if wanted.connector:
        connections.check_connector(wanted.connector)
    resource = f"volume:{wanted.volume_id}/server:{wanted.server_id}"

    def begin(tx: Session) -> Begun:
        earlier = fence.admit(tx, asked.operation, resource, verb="POST")
        if (before := _recall(tx, earlier)) is not None:
            return before
        row = volumes.visible(tx, asked.who, wanted.volume_id)
        reserving.reserve(tx, asked, row, wanted)
        attachment = reserving.add(tx, asked, row, wanted)
        saga_id = ""
        if wanted.connector:
            saga_id = reserving.connect(tx, asked, attachment, wanted.connector, made=True)
        begun = Begun(attachment.id, row.id, saga_id)
        answer = Answer(body=begun)
        fence.record(tx, asked.operation, resource, answer, [attachment.id], verb="POST")
        return begun

    return (await _submit(asked, begin)).attachment_id


async def connect(asked: Asked, attachment_id: str, connector: Mapping[str, Any]) -> None:
    """Export the volume to the connector's host. The same connector again gives the same."""
    connections.check_connector(connector)
    resource = f"attachment:{attachment_id}"

    def begin(tx: Session) -> Begun:
        earlier = fence.admit(tx, asked.operation, resource)
        if (before := _recall(tx, earlier)) is not None:
            return before
        begun = _begin_connecting(tx, asked, visible(tx, asked.who, attachment_id), connector)
        fence.record(tx, asked.operation, resource, Answer(body=begun))
        return begun

    await _submit(asked, begin)


def _begin_connecting(
    tx: Session, asked: Asked, attachment: AttachmentRow, connector: Mapping[str, Any]
) -> Begun:
    row = _volumes.one(tx, attachment.volume_id)
    if "error" in row.status:
        raise Conflict(
            f"Resource conflict: Volume {row.id} is in status {row.status} and cannot be "
            "connected. Nothing was changed.",
        )
    same = attachment.digest == connections.digest(connector) and not attachment.deleting
    if same and (attachment.saga_id or attachment.connection is not None):
        return Begun(attachment.id, row.id, attachment.saga_id)
    reserving.check_reconnect(attachment, connector)
    reserving.check_sole_connector(tx, row)
    saga_id = reserving.connect(tx, asked, attachment, connector, made=False)
    return Begun(attachment.id, row.id, saga_id)


async def complete(asked: Asked, attachment_id: str) -> None:
    """Tell that the server has the volume: both are attached, with or without a connection."""
    resource = f"attachment:{attachment_id}"

    def finish(tx: Session) -> None:
        if fence.admit(tx, asked.operation, resource, verb="POST") is not None:
            return
        attachment = visible(tx, asked.who, attachment_id)
        if attachment.deleting and attachment.saga_id:
            # It has begun to go and there is no way back: whoever holds on to it would lose the
            # volume once it is gone.
            raise NotFound(
                f"VolumeAttachment {attachment_id} could not be found: it is being deleted "
                f"(operation {attachment.saga_id})."
            )
        _check_rests(attachment)
        show_attached(tx, asked.volume, attachment)
        fence.record(tx, asked.operation, resource, Answer(status=204), verb="POST")

    await asked.volume.store.write(finish)


async def delete(asked: Asked, attachment_id: str) -> list[AttachmentRow]:
    """End the export, if any, and forget the attachment. Return what the volume has left.

    Raises Conflict while a server uses it and the caller is not a service.
    """
    volume, resource = asked.volume, f"attachment:{attachment_id}"
    # A service may, so it needs no look.
    if not is_service(asked.who):
        row = await volume.store.read(lambda tx: _find_visible(tx, asked.who, attachment_id))
        if row is not None:
            await guard.allow_deleting(volume, asked.who, row)

    def begin(tx: Session) -> Begun:
        earlier = fence.admit(tx, asked.operation, resource, verb="DELETE")
        if (before := _recall(tx, earlier)) is not None:
            return before
        begun = begin_deleting(tx, volume, asked.who, visible(tx, asked.who, attachment_id))
        fence.record(tx, asked.operation, resource, Answer(body=begun), verb="DELETE")
        return begun

    begun = await _submit(asked, begin)
    return await volume.store.read(lambda tx: of_volume(tx, begun.volume_id))


def begin_deleting(tx: Session, volume: Volume, who: Who | None, row: AttachmentRow) -> Begun:
    """Delete an attachment that never was connected at once; start the saga for any other."""
    if row.deleting:
        return Begun(row.id, row.volume_id, row.saga_id)
    if row.attach_status != "reserved":
        notices.send(tx, volume, row.volume_id, "detach.start")
    if row.connection is None and not row.digest:
        return _delete_at_once(tx, volume, row)
    host = backends.host_of(tx, row.volume_id)
    notes = DeleteAttachment(attachment_id=row.id, volume_id=row.volume_id, host=host)
    saga_id = volume.sagas.start(tx, DELETE_ATTACHMENT, notes, who=who)
    _change(tx, row.id, {"saga_id": saga_id, "deleting": True})
    return Begun(row.id, row.volume_id, saga_id)


def _delete_at_once(tx: Session, volume: Volume, row: AttachmentRow) -> Begun:
    begun, told = Begun(row.id, row.volume_id), row.attach_status != "reserved"
    tx.delete(row)
    statuses.recompute(tx, row.volume_id, volume.clock.now())
    if told:
        notices.send(tx, volume, row.volume_id, "detach.end")
    return begun


def of_volume(tx: Session, volume_id: str) -> list[AttachmentRow]:
    """Return a volume's attachments, oldest first."""
    return _of_volume.all(tx, of_volume=volume_id)


def _recall(tx: Session, earlier: Answer | None) -> Begun | None:
    """Return what the same operation led to before; None when that failed and may be run again."""
    if earlier is None:
        return None
    begun = typed.convert(earlier.body, Begun)
    mark = journal.load(tx, begun.saga_id) if begun.saga_id else None
    failed = mark is not None and mark.state == "ended" and mark.outcome != "done"
    return None if failed else begun


def _find_visible(tx: Session, who: Who, attachment_id: str) -> AttachmentRow | None:
    """Return the attachment if it is there: a repeated request may find it gone."""
    try:
        return visible(tx, who, attachment_id)
    except NotFound:
        return None


async def _submit(asked: Asked, begin: Any) -> Begun:
    volume = asked.volume
    begun: Begun = await volume.sagas.submit(begin, patience_s=asked.patience_s)
    if begun.saga_id:
        await volume.sagas.answered(begun.saga_id)
    return begun


def _check_rests(attachment: AttachmentRow) -> None:
    if attachment.saga_id:
        doing = "deleted" if attachment.deleting else "connected"
        raise Conflict(
            f"Resource conflict: Attachment {attachment.id} is still being {doing} (operation "
            f"{attachment.saga_id}). Try again when that has ended.",
            busy=not attachment.deleting,
        )


def show_attached(tx: Session, volume: Volume, attachment: AttachmentRow) -> None:
    """Show an attachment as attached and its volume as in-use. Raises Conflict when it cannot.

    One that is attached already stays so while an operation has the volume in hand, which gives it
    its status back: who tells once more, as at the end of a move in vain, may hold what that needs.
    """
    row = _volumes.one(tx, attachment.volume_id)
    changed = row.launched_at is not None and statuses.change(
        tx,
        row.id,
        allowed=("available", "in-use", "maintenance", "error", *statuses.BORROWED),
        now=volume.clock.now(),
        status="in-use",
        attach_status="attached",
        attached_mode=attachment.attach_mode or "rw",
        **statuses.RETURNED,
    )
    if not changed and attachment.attach_status == "attached":
        return
    if not changed:
        raise Conflict(
            f"Resource conflict: Volume {row.id} is {row.status}, so its attachment cannot be "
            "completed. Nothing was changed; try again when it is at rest.",
            busy=True,
        )
    _change(tx, attachment.id, {"attach_status": "attached", **statuses.RETURNED})
    notices.send(tx, volume, row.id, "attach.end")
