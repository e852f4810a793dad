"""The copy of a volume in use: a volume of its own until the guest goes on with it.

Compute reserves and connects it as any other volume, by its own id, so it has a row. It belongs to
no project: no member sees it or its attachments, and no quota counts it, but that of the type which
its volume is to have. Its `migration_status`, `target:<volume>`, says what it is, as upstream; it
is `error` once compute was refused or has given up, and gone once it is the volume.

Source: facts/block_storage.md 1.6, facts/compute.md 4.12.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import delete, select, update

from mooring.errors import Invalid
from mooring.volume.migration import copies
from mooring.volume.quotas.usage import TARGET
from mooring.volume.tables import AttachmentRow, ExportRow, VolumeRow
from mooring.volume.volumes import statuses

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

    from mooring.volume.migration.copies import Move
    from mooring.volume.tables import TypeRow

Outcome = Literal["open", "switched", "refused"]


def signal_of(volume_id: str) -> str:
    """Return the name of the signal that compute's completion gives."""
    return f"volume-migrated:{volume_id}"


def add(tx: Session, row: VolumeRow, move: Move, volume_type: TypeRow, now: datetime) -> None:
    """Write a volume's copy down, of the type that the volume is to have."""
    copy = VolumeRow(
        id=move.copy_id,
        project_id="",
        user_id=row.user_id,
        name=row.name,
        size_gib=row.size_gib,
        status="creating",
        attach_status="detached",
        migration_status=f"{TARGET}{row.id}",
        bootable=row.bootable,
        multiattach=row.multiattach,
        volume_type_id=volume_type.id,
        zone=row.zone,
        backend=move.moves_to,
        labels={},
        image_metadata={},
        borrowed_by="",
        borrowed_for="",
        created_at=now,
    )
    tx.add(copy)
    tx.flush()


def offer(tx: Session, move: Move, event: str, now: datetime) -> None:
    """Let compute have the copy, by the operation `event`: it is made."""
    values = {"status": "available", "launched_at": now, "extend_event": event}
    statuses.change(tx, move.copy_id, allowed=("creating",), now=now, **values)


def find(tx: Session, row: VolumeRow) -> VolumeRow | None:
    """Return the copy of a volume that a guest has, or had, until the copy is the volume."""
    if row.copy_id is None:
        return None
    # Whoever may see the volume may know of its copy.
    return tx.get(VolumeRow, row.copy_id, populate_existing=True)


def is_copy(row: VolumeRow) -> bool:
    """Whether a volume is the copy of another one."""
    return (row.migration_status or "").startswith(TARGET)


def refuse_copy(row: VolumeRow) -> None:
    """Raise Invalid for what is the copy of another volume: that one is asked instead."""
    if is_copy(row):
        volume_id = (row.migration_status or "").removeprefix(TARGET)
        raise Invalid(
            f"Invalid volume: Volume {row.id} is the copy of volume {volume_id}, on its way to "
            f"another pool. Nothing was changed; ask for volume {volume_id} instead."
        )


def look(tx: Session, volume_id: str, move: Move) -> Outcome:
    """Return what compute has said of a copy: nothing yet, that its guest has it, or has it not."""
    tx.expire_all()
    # For sagas of the volume alone, which act for nobody.
    row, copy = tx.get(VolumeRow, volume_id), tx.get(VolumeRow, move.copy_id)
    if row is not None and row.copy_id == move.copy_id and copies.has_switched(row):
        return "switched"
    return "refused" if row is None or copy is None or copy.status == "error" else "open"


def refuse(tx: Session, move: Move, now: datetime) -> None:
    """Let nobody complete a migration any more: the volume stays where it is."""
    # What was asked of compute stays known: whoever ends the copy has to call that back first.
    statuses.change(tx, move.copy_id, allowed=None, now=now, status="error")


def close(tx: Session, volume_id: str, move: Move, now: datetime) -> bool:
    """Let nobody complete a migration any more; tell whether somebody has."""
    if look(tx, volume_id, move) == "switched":
        return True
    refuse(tx, move, now)
    return False


def attachments_of(tx: Session, move: Move) -> list[str]:
    """Return the attachments of a copy: while there are any, somebody may work with it."""
    query = select(AttachmentRow.id).where(AttachmentRow.volume_id == move.copy_id)
    return list(tx.execute(query).scalars())


def take_over(tx: Session, row: VolumeRow, copy: VolumeRow, now: datetime) -> None:
    """Make the copy the volume: its place, its type and its attachments, and no others."""
    for table in (AttachmentRow, ExportRow):
        tx.execute(delete(table).where(table.volume_id == row.id))
    mine = update(AttachmentRow).where(AttachmentRow.volume_id == copy.id)
    tx.execute(mine.values(volume_id=row.id, project_id=row.project_id))
    values: dict[str, Any] = {
        "backend": row.moves_to,
        "migration_status": "completing",
        "volume_type_id": copy.volume_type_id,
        "attach_status": copy.attach_status,
        "attached_mode": copy.attached_mode,
    }
    statuses.change(tx, row.id, allowed=None, now=now, **values)
    if row.status == "available":
        # A reset had it follow the attachment that has just ended.
        statuses.recompute(tx, row.id, now)
    forget(tx, copy.id)


def forget(tx: Session, copy_id: str) -> None:
    """Delete a copy's row, and with it what attachments it has left."""
    tx.flush()
    tx.execute(delete(VolumeRow).where(VolumeRow.id == copy_id))


def come_back(tx: Session, volume_id: str, move: Move, now: datetime, **shown: Any) -> None:
    """Forget the copy, and let the volume show what its attachments say; `shown` as well."""
    forget(tx, move.copy_id)
    statuses.change(tx, volume_id, allowed=None, now=now, **shown, **copies.NONE)


def let_rest(tx: Session, volume_id: str, shown: str, now: datetime) -> None:
    """Let a volume's status follow its attachments again, from `shown` or from what it was."""
    # For sagas of the volume alone.
    row = tx.get(VolumeRow, volume_id, populate_existing=True)
    if row is not None:
        settles = bool(shown) and row.status == shown
        statuses.recompute(tx, volume_id, now, settle=settles)
