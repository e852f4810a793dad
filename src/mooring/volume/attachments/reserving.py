"""Reserving and connecting: the rules that decide who may have a volume, inside one transaction.

Source: facts/block_storage.md 2.4 and 2.5.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from mooring import row_limits
from mooring.errors import Conflict, Forbidden, Invalid
from mooring.saga.engine import ANSWER_WAIT_S
from mooring.store.loaded import Adding
from mooring.store.prepared import Change, Prepared
from mooring.volume.attachments import connections
from mooring.volume.attachments.sagas.connect_attachment import (
    CONNECT_ATTACHMENT,
    ConnectAttachment,
)
from mooring.volume.backends import backends
from mooring.volume.tables import AttachmentRow, VolumeRow
from mooring.volume.volumes import statuses
from mooring.web.identity import is_service

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mooring.fence.operation import Operation
    from mooring.volume.service import Volume
    from mooring.who import Who

Mode = Literal["rw", "ro"]
_MOST = row_limits.VOLUME_ATTACHMENTS
_add, _change = Adding(AttachmentRow), Change(AttachmentRow)
_connectors = Prepared[tuple[bool, str]](
    select(AttachmentRow.connection.is_not(None), AttachmentRow.digest).where(
        AttachmentRow.volume_id == bindparam("of_volume")
    )
)


class NewAttachment(Struct, frozen=True, kw_only=True):
    """What POST /attachments asks for. An empty connector is none."""

    volume_id: str
    server_id: str | None = None
    connector: dict[str, Any] | None = None
    mode: Mode | None = None
    may_share_bootable: bool = True
    """Whether policy lets the caller give a bootable volume to a second server."""


class Asked(Struct, frozen=True):
    """On whose behalf something is done: the service, who asked, the operation that came along."""

    volume: Volume
    who: Who
    operation: Operation | None = None

    @property
    def patience_s(self) -> float:
        """How long to wait for whoever has the volume now, a snapshot say, before it is refused.

        An operation of ours comes again by itself, and may hold what the volume's holder needs.
        Everybody else gives up at the first refusal, as a real Nova does.
        """
        return 0.0 if self.operation else ANSWER_WAIT_S

    def borrows(self) -> dict[str, Any]:
        """Return the columns that say so on a row in a transitional status."""
        return statuses.borrowed(self.who, self.operation, self.volume.clock.now())


def reserve(tx: Session, asked: Asked, row: VolumeRow, wanted: NewAttachment) -> None:
    """Promise the volume to a server. Raises Invalid when its status or another server forbids it.

    A server that has the volume already may reserve it again, which changes no status: that is how
    it moves between hosts.
    """
    if "error" in row.status:
        raise _cannot_reserve(row)
    if row.multiattach and row.bootable and row.status == "in-use":
        _require_sharing(wanted)
    allowed = ["available", "downloading", *(["in-use"] if row.multiattach else [])]
    reserved = statuses.change(
        tx,
        row.id,
        allowed=allowed,
        now=asked.volume.clock.now(),
        status="reserved",
        **asked.borrows(),
    )
    if not reserved and not _has_already(tx, row, wanted.server_id):
        raise _cannot_reserve(row)
    if row.status != "available":
        check_room(tx, row.id)


def check_room(tx: Session, volume_id: str) -> None:
    """Raise Invalid for a volume that has as many attachments as one may have."""
    if len(_connectors.all(tx, of_volume=volume_id)) >= _MOST:
        raise Invalid(
            f"Volume {volume_id} has {_MOST} attachments, and no volume has more. Nothing was "
            "reserved; delete those that no server needs."
        )


def add(tx: Session, asked: Asked, row: VolumeRow, wanted: NewAttachment) -> AttachmentRow:
    """Write the attachment down. A read-only volume is attached read-only."""
    attachment = AttachmentRow(
        id=str(uuid.uuid4()),
        volume_id=row.id,
        project_id=row.project_id,
        server_id=wanted.server_id,
        user_id=asked.who.user_id,
        by_service=is_service(asked.who),
        attach_status="reserved",
        attach_mode="ro" if row.readonly else wanted.mode,
        saga_id="",
        digest="",
        deleting=False,
        created_at=asked.volume.clock.now(),
        **asked.borrows(),
    )
    return _add(tx, attachment)


def check_sole_connector(tx: Session, row: VolumeRow) -> None:
    """Raise Conflict while any attachment of a volume with several is connected, or about to be."""
    if row.multiattach:
        return
    tx.flush()
    found = _connectors.all(tx, of_volume=row.id)
    if len(found) > 1 and any(connected or digest for connected, digest in found):
        raise Conflict(
            f"Resource conflict: Duplicate connectors of volume {row.id} are not allowed: another "
            "attachment is connected already. Nothing was changed; delete that one first.",
        )


def connect(
    tx: Session,
    asked: Asked,
    attachment: AttachmentRow,
    connector: Mapping[str, Any],
    *,
    made: bool,
) -> str:
    """Start the saga that exports the volume for an attachment, and return its id."""
    mode = attachment.attach_mode or ("ro" if connector.get("mode") == "ro" else "rw")
    notes = ConnectAttachment(
        attachment_id=attachment.id,
        volume_id=attachment.volume_id,
        host=backends.host_of(tx, attachment.volume_id),
        connector=dict(connector),
        mode=mode,
        made=made,
        fresh=attachment.connection is None,
        borrowed_by=asked.who.user_id,
        borrowed_for=str(asked.operation) if asked.operation else "",
    )
    saga_id = asked.volume.sagas.start(tx, CONNECT_ATTACHMENT, notes, who=asked.who)
    mark = {"saga_id": saga_id, "digest": connections.digest(connector)}
    _change(tx, attachment.id, mark)
    return saga_id


def check_reconnect(attachment: AttachmentRow, connector: Mapping[str, Any]) -> None:
    """Raise Conflict when an attachment is at work, or connected to another host."""
    if attachment.deleting:
        raise Conflict(
            f"Resource conflict: Attachment {attachment.id} is being deleted (operation "
            f"{attachment.saga_id}). Make a new one.",
        )
    if attachment.saga_id:
        raise Conflict(
            f"Resource conflict: Attachment {attachment.id} is being connected with another "
            f"connector (operation {attachment.saga_id}). Try again when that has ended.",
            busy=True,
        )
    if attachment.connection is not None and attachment.attached_host != connector.get("host"):
        raise Conflict(
            f"Resource conflict: Attachment {attachment.id} is connected to host "
            f"{attachment.attached_host} already. Nothing was changed; delete it and make another.",
        )


def _require_sharing(wanted: NewAttachment) -> None:
    if not wanted.may_share_bootable:
        raise Forbidden(
            "Policy doesn't allow volume:multiattach_bootable_volume to be performed.",
        )


def _has_already(tx: Session, row: VolumeRow, server_id: str | None) -> bool:
    """Whether the server has the volume, or is the one that is just being given it."""
    if server_id is None or row.status not in ("in-use", "reserved", "attaching"):
        return False
    query = select(AttachmentRow.id).where(
        AttachmentRow.volume_id == row.id, AttachmentRow.server_id == server_id
    )
    if row.status == "attaching":
        query = query.where(AttachmentRow.attach_status == "attaching")
    return tx.execute(query.limit(1)).first() is not None


def _cannot_reserve(row: VolumeRow) -> Invalid:
    states = "available, in-use or downloading" if row.multiattach else "available or downloading"
    return Invalid(
        f"Invalid volume: Volume {row.id} status must be {states} to reserve, but the current "
        f"status is {row.status}. Nothing was changed.{statuses.way_out(row.status)}",
    )
