"""Connect an attachment: export the volume to the connector's host, keep what the host needs.

The connection lies in the attachment row, sealed, and never in the notes. Until the last step
clients see the volume and the attachment as they were before.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from sqlalchemy import bindparam, delete, select
from sqlalchemy.orm import Session

from mooring.errors import Conflict
from mooring.saga.define import Run, Saga, Step, Together, exclusive, shared
from mooring.store.prepared import Change, Prepared
from mooring.volume.attachments import connections, sharing
from mooring.volume.backends import backends
from mooring.volume.tables import AttachmentRow, VolumeRow
from mooring.volume.volumes import statuses
from mooring.volume.volumes.story import tell

if TYPE_CHECKING:
    from mooring.volume.service import Volume


_change_any = Change(AttachmentRow)
_change_mine = Change(AttachmentRow, lambda columns: columns.saga_id == bindparam("of_saga"))
_status_of = Prepared(select(VolumeRow.status).where(VolumeRow.id == bindparam("of_id")), str)


class ConnectAttachment(Struct, frozen=True, kw_only=True):
    """The notes. `connector` is what the host says of itself; it holds no secrets."""

    attachment_id: str
    volume_id: str
    host: str
    """The agent that has the volume."""
    connector: dict[str, Any]
    mode: str
    made: bool
    """Whether the same request made the attachment: then a failure takes it back."""
    fresh: bool
    """Whether it was not connected before: then a failure ends the export."""
    borrowed_by: str = ""
    borrowed_for: str = ""


def check_volume(tx: Session, notes: ConnectAttachment, run: Run[Volume]) -> None:
    """Refuse a volume that turned bad since the request was accepted."""
    del run
    status = _status_of.first(tx, of_id=notes.volume_id)
    if status is None or "error" in status or status == "deleting":
        raise Conflict(
            f"Resource conflict: Volume {notes.volume_id} is {status or 'gone'} and cannot be "
            "connected. Nothing was changed.",
        )


def let_go(tx: Session, notes: ConnectAttachment, run: Run[Volume]) -> None:
    """Take back what the request wrote: the attachment if it made it, else the mark on it."""
    if notes.made:
        tx.execute(delete(AttachmentRow).where(AttachmentRow.id == notes.attachment_id))
        statuses.recompute(tx, notes.volume_id, run.now())
        return
    values: dict[str, Any] = {"saga_id": ""}
    if notes.fresh:
        values["digest"] = ""
    _change_mine(tx, notes.attachment_id, values, of_saga=run.saga_id)


async def export_volume(notes: ConnectAttachment, run: Run[Volume]) -> Together:
    """Export the volume to the host and keep the connection."""
    agent = await backends.agent_of(run, notes.host)
    connection = await agent.export_volume(
        notes.volume_id, notes.attachment_id, notes.connector, operation=run.operation
    )
    named = await sharing.name_backend(run, notes.volume_id, connection)
    sealed = connections.seal(run.service.sealer, named)
    kept = {"connection": sealed, "connector": notes.connector}

    def keep(tx: Session) -> None:
        if not _change_mine(tx, notes.attachment_id, kept, of_saga=run.saga_id):
            raise Conflict(
                f"Resource conflict: Attachment {notes.attachment_id} was deleted while it was "
                "being connected. The volume is not exported for it any more.",
            )

    return Together(keep)


async def end_export(notes: ConnectAttachment, run: Run[Volume]) -> Together | None:
    """End the export, unless the attachment had one before."""
    if not notes.fresh:
        return None
    agent = await backends.agent_of(run, notes.host)
    await agent.unexport_volume(notes.volume_id, notes.attachment_id, operation=run.operation)

    def empty(tx: Session) -> None:
        _change_any(tx, notes.attachment_id, {"connection": None, "connector": None})

    # With the bookmark: who slept since may find the attachment connected anew, by another saga.
    return Together(empty)


def announce(tx: Session, notes: ConnectAttachment, run: Run[Volume]) -> None:
    """Show the attachment, and with it the volume, as attaching: the caller's turn."""
    now = run.now()
    owner = {"borrowed_by": notes.borrowed_by, "borrowed_for": notes.borrowed_for}
    shown: dict[str, Any] = {
        "attach_status": "attaching",
        "attach_mode": notes.mode,
        "attached_host": notes.connector["host"],
        "mountpoint": str(notes.connector.get("mountpoint", "na")),
        "attached_at": now,
        "saga_id": "",
        "borrowed_at": now,
        **owner,
    }
    mine = _change_mine(tx, notes.attachment_id, shown, of_saga=run.saga_id)
    if not mine or not _turn_volume(tx, notes, owner, now):
        raise Conflict(
            f"Resource conflict: Volume {notes.volume_id} or its attachment was changed while it "
            "was being connected. The export was ended again.",
        )


def _turn_volume(
    tx: Session, notes: ConnectAttachment, owner: dict[str, str], now: datetime
) -> bool:
    return statuses.change(
        tx,
        notes.volume_id,
        allowed=("available", "in-use", *statuses.BORROWED),
        now=now,
        status="attaching",
        attach_status="attaching",
        borrowed_at=now,
        **owner,
    )


CONNECT_ATTACHMENT = Saga(
    "volume.connect_attachment",
    ConnectAttachment,
    Step("check_volume", check_volume, undo=let_go),
    Step("export_volume", export_volume, undo=end_export),
    Step("announce", announce),
    locks=lambda notes: (
        exclusive(f"attachment:{notes.attachment_id}"),
        shared(f"volume:{notes.volume_id}"),
    ),
    answered_after="announce",
    # It ends with the completion, which is a request of its own.
    story=tell(begun="attach.start"),
)
