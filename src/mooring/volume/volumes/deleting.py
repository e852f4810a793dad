"""Which volumes may be deleted, and what begins to. Source: facts/block_storage.md 1.2."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import and_, exists, false, or_, select, true, update

from mooring.errors import Conflict, Invalid
from mooring.fence import table as fence
from mooring.fence.table import Answer
from mooring.saga.held import is_being_deleted
from mooring.volume.attachments import connections
from mooring.volume.snapshots import snapshot_rows
from mooring.volume.tables import AttachmentRow, VolumeRow
from mooring.volume.volumes import statuses
from mooring.volume.volumes.sagas.delete_volume import (
    DELETE_VOLUME,
    FORCE_DELETE_VOLUME,
    DeleteVolume,
)
from mooring.volume.volumes.volumes import NOT_MIGRATING, is_migrating, visible

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.attachments.reserving import Asked

_DELETABLE = (
    "available",
    "error",
    "error_restoring",
    "error_extending",
    "error_managing",
    "error_deleting",
)
_CHANGING = ("extending", "retyping")
"""What a volume of a server may be doing when that lets go of it; it ends by itself."""


async def delete(
    asked: Asked, volume_id: str, *, force: bool = False, cascade: bool = False
) -> None:
    """Start to delete a volume; one that is being deleted already is fine.

    With `force` any status will do, and whoever is at work on the volume is ended; `cascade` takes
    its snapshots along.
    """
    resource = f"volume:{volume_id}"

    def begin(tx: Session) -> None:
        if fence.admit(tx, asked.operation, resource, verb="DELETE") is not None:
            return
        row = visible(tx, asked.who, volume_id)
        if force or not _is_being_deleted(tx, row):
            _check_snapshots(tx, asked, row, cascade=cascade)
            _begin_deleting(tx, asked, row, force=force)
        fence.record(tx, asked.operation, resource, Answer(status=202), verb="DELETE")

    await asked.volume.sagas.submit(begin)


def _is_being_deleted(tx: Session, row: VolumeRow) -> bool:
    """Whether a volume goes anyway. Raises Conflict while a reset is to end its deletion."""
    if row.status != "deleting":
        return False
    key, name = f"volume:{row.id}", f"Resource conflict: Volume {row.id}"
    return is_being_deleted(tx, key, name, DELETE_VOLUME, FORCE_DELETE_VOLUME)


def _begin_deleting(tx: Session, asked: Asked, row: VolumeRow, *, force: bool) -> None:
    # One that is being given to a second host is attaching, and its guest writes all the same; one
    # that waits for a server that was put away is reserved.
    used = exists().where(
        AttachmentRow.volume_id == row.id,
        or_(AttachmentRow.attach_status == "attached", AttachmentRow.server_id.is_not(None)),
    )
    guarded = update(VolumeRow).where(
        VolumeRow.id == row.id,
        VolumeRow.attach_status != "attached",
        ~used,
        or_(
            VolumeRow.migration_status.is_(None),
            VolumeRow.migration_status.in_(NOT_MIGRATING),
            # A migration behind its switch can only go on, which may take a host that is gone.
            and_(VolumeRow.moves_to == VolumeRow.backend, true() if force else false()),
        ),
    )
    if not force:
        guarded = guarded.where(VolumeRow.status.in_((*_DELETABLE, "deleting")))
    values = {"status": "deleting", "updated_at": asked.volume.clock.now(), **statuses.RETURNED}
    if tx.execute(guarded.values(**values).returning(VolumeRow.id)).first() is None:
        raise _busy(tx, asked, row) or _refusal(tx, row)
    saga = FORCE_DELETE_VOLUME if force else DELETE_VOLUME
    notes = DeleteVolume(volume_id=row.id, exports=connections.find_exports(tx, row.id))
    asked.volume.sagas.start(tx, saga, notes, who=asked.who)


def _check_snapshots(tx: Session, asked: Asked, row: VolumeRow, *, cascade: bool) -> None:
    """Raise Invalid while the volume has snapshots that do not go with it."""
    found = snapshot_rows.of_volume(tx, row.id)
    if not cascade and found:
        count = "a snapshot" if len(found) == 1 else f"{len(found)} snapshots"
        raise _cannot_delete(
            row, f", and has {count}", "; delete those first, or ask for them to go along (cascade)"
        )
    for snapshot in found:
        if snapshot.project_id != asked.who.project_id and not asked.who.is_admin:
            # One that its former project kept when it gave the volume away: its own affair.
            raise _cannot_delete(
                row,
                ", and its former project has kept a snapshot of it",
                "; that project has to delete that first",
            )
        if snapshot.saga_id:
            raise Invalid(
                f"Invalid volume: Snapshot {snapshot.id} of volume {row.id} is {snapshot.status} "
                "and cannot be deleted along with it. Nothing was changed.",
            )


def _busy(tx: Session, asked: Asked, row: VolumeRow) -> Conflict | None:
    """Return what tells another service's operation to ask again: a server left it on its way."""
    is_changing = row.status in _CHANGING or is_migrating(row)
    if asked.operation is None or not is_changing or _is_waited_for(tx, row.id):
        return None
    if not (at_work := asked.volume.sagas.holders(tx, f"volume:{row.id}")):
        return None
    return Conflict(
        f"Resource conflict: Volume {row.id} is {row.status} (migration_status "
        f"{row.migration_status}), and operation {at_work[0]} is at work on it. Nothing was "
        "changed; it can be deleted when that has ended.",
        busy=True,
    )


def _is_waited_for(tx: Session, volume_id: str) -> bool:
    query = select(AttachmentRow.id).where(AttachmentRow.volume_id == volume_id).limit(1)
    return tx.execute(query).first() is not None


def _refusal(tx: Session, row: VolumeRow) -> Invalid:
    """Return why a volume is not deleted: because of a server, or of what it is."""
    waiting = select(AttachmentRow.id, AttachmentRow.server_id).where(
        AttachmentRow.volume_id == row.id, AttachmentRow.server_id.is_not(None)
    )
    found = tx.execute(waiting.limit(1)).first()
    if found is None or row.attach_status == "attached":
        return _cannot_delete(row)
    return Invalid(
        f"Invalid volume: Attachment {found.id} keeps volume {row.id} for server "
        f"{found.server_id}. Nothing was changed; detach it from the server, or, where the server "
        "does not list it, delete that attachment first.",
    )


def _cannot_delete(row: VolumeRow, besides: str = "", advice: str = "") -> Invalid:
    states = " or ".join(_DELETABLE)
    return Invalid(
        f"Invalid volume: Volume {row.id} status must be {states} and it must not be migrating, "
        "attached, belong to a group, have snapshots or be disassociated from snapshots after "
        f"volume transfer; it is {row.status} and {row.attach_status}{besides}. "
        f"Nothing was changed{advice}.{statuses.way_out(row.status)}",
    )
