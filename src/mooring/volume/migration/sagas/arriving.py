"""The rows of a volume that changes its pool, its type, or both."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from mooring.errors import Conflict
from mooring.volume.quotas import quota
from mooring.volume.tables import TypeRow, VolumeRow
from mooring.volume.types import types
from mooring.volume.volumes import statuses

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.migration.sagas.migrate_notes import MigrateVolume


def of_type(volume_type: TypeRow) -> dict[str, Any]:
    """Return the columns of a volume that is of this type from now on."""
    return {
        "volume_type_id": volume_type.id,
        "multiattach": types.is_multiattach(volume_type),
    }


def switch(tx: Session, notes: MigrateVolume, now: datetime) -> None:
    """Let the volume lie in its new pool, and be of its new type.

    Raises OverQuota when the type's quota has no room any more, Conflict when the type is gone or
    asks for another file.
    """
    values = {"backend": notes.move.moves_to, "migration_status": "completing"}
    if notes.type_id:
        # Who asked was seen to have the right to both; the saga acts for nobody.
        row, new_type = tx.get_one(VolumeRow, notes.volume_id), tx.get(TypeRow, notes.type_id)
        if new_type is None:
            raise Conflict(
                f"Volume type {notes.type_id} was deleted before volume {notes.volume_id} had it. "
                "The volume is as it was; choose another type."
            )
        if types.is_multiattach(new_type) and not notes.format:
            raise Conflict(
                f"Volume type {new_type.name} became multiattach before volume {row.id} had it, "
                "and the copy is none that several servers can have. The volume is as it was; "
                "retype it again."
            )
        quota.claim_type(tx, row, new_type)
        values |= of_type(new_type)
    statuses.change(tx, notes.volume_id, allowed=None, now=now, **values)


def switch_back(tx: Session, notes: MigrateVolume, now: datetime) -> None:
    """Let it lie where it lay, and be of the type that it was of."""
    values: dict[str, Any] = {"backend": notes.move.moves_from, "migration_status": "migrating"}
    if notes.type_id:
        values["volume_type_id"] = notes.former_type_id
        values["multiattach"] = notes.former_multiattach
    statuses.change(tx, notes.volume_id, allowed=None, now=now, **values)


def show_available(tx: Session, volume_id: str, shown: str, now: datetime) -> None:
    """Give a volume back that was kept from its users under this status; "": it was not."""
    if shown:
        statuses.change(tx, volume_id, allowed=(shown,), now=now, status="available")
