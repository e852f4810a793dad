"""Delete an attachment that was connected, or may have been: end its export, then forget it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from sqlalchemy import bindparam, delete
from sqlalchemy.orm import Session

from mooring.saga.define import Run, Saga, Step, exclusive
from mooring.store.prepared import Change, Prepared
from mooring.volume.backends import backends
from mooring.volume.tables import AttachmentRow
from mooring.volume.volumes import statuses
from mooring.volume.volumes.story import tell

if TYPE_CHECKING:
    from mooring.volume.service import Volume


_change_mine = Change(AttachmentRow, lambda columns: columns.saga_id == bindparam("of_saga"))
_forget = Prepared[Any](delete(AttachmentRow).where(AttachmentRow.id == bindparam("of_id")))


class DeleteAttachment(Struct, frozen=True, kw_only=True):
    """The notes."""

    attachment_id: str
    volume_id: str
    host: str
    """The agent that has the volume."""


async def end_export(notes: DeleteAttachment, run: Run[Volume]) -> None:
    """End the export; one that never was is fine."""
    agent = await backends.agent_of(run, notes.host)
    await agent.unexport_volume(notes.volume_id, notes.attachment_id, operation=run.operation)


def forget_attachment(tx: Session, notes: DeleteAttachment, run: Run[Volume]) -> None:
    """Delete the row and let the volume's status follow from what is left."""
    _forget.run(tx, {"of_id": notes.attachment_id})
    statuses.recompute(tx, notes.volume_id, run.now())


def keep_attachment(tx: Session, notes: DeleteAttachment, run: Run[Volume]) -> None:
    """Leave the attachment as it was, so that deleting may be tried again."""
    kept = {"saga_id": "", "deleting": False}
    _change_mine(tx, notes.attachment_id, kept, of_saga=run.saga_id)


# It takes the attachment from whoever is connecting it: that one is undone, or, where its undo
# cannot proceed, absorbed, because ending the export is what its undo would do.
DELETE_ATTACHMENT = Saga(
    "volume.delete_attachment",
    DeleteAttachment,
    # Undone only when it gives up waiting for whoever is connecting the attachment.
    Step("end_export", end_export, undo=keep_attachment, may_be_forgone=True),
    Step("forget_attachment", forget_attachment),
    locks=lambda notes: (exclusive(f"attachment:{notes.attachment_id}"),),
    mode="preempt",
    answered_after="forget_attachment",
    pivot="end_export",
    failed_end=[Step("keep_attachment", keep_attachment)],
    # It began with the request, whatever the attachment needs.
    story=tell(ended="detach.end"),
)
