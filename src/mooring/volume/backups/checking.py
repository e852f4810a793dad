"""Whether the store holds what a record of a backup says: all of it, and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.errors import Conflict
from mooring.fence.threads import run_to_end
from mooring.volume.backups import backup_rows
from mooring.volume.tables import BackupRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.orm import Session

    from mooring.volume.backups.stores.base import BackupStore, Manifest


class Expected(Struct, frozen=True):
    """What the database says of a backup's data.

    They lie under the id `place`, in so many pieces, and else in the places of the backups that it
    builds on, which stay as long as it.
    """

    place: str
    object_count: int
    others: frozenset[str]


def expect(tx: Session, backup_id: str) -> Expected:
    """Return what is to be found of a backup."""
    row = tx.get_one(BackupRow, backup_id)
    others, parent_id = set[str](), row.parent_id
    while parent_id is not None:
        others.add(backup_rows.find_place(tx, parent_id))
        # For the saga of an import alone, which acts for nobody.
        parent = tx.get(BackupRow, parent_id)
        parent_id = None if parent is None else parent.parent_id
    place = backup_rows.find_place(tx, backup_id)
    return Expected(place, row.object_count, frozenset(others))


async def check(store: BackupStore, expected: Expected) -> None:
    """Raise Conflict where the data are not there, not whole, or not those that were meant."""
    place = expected.place
    manifest = await store.find_manifest(place)
    if manifest is None:
        raise Conflict(f"The store has no data of a backup {place}, or not whole ones.")
    if manifest.backup_id != place or len(manifest.stored) != expected.object_count:
        raise Conflict(f"The data under {place} in the store are another backup's than this.")
    if strangers := sorted({*manifest.sources} - expected.others):
        raise Conflict(
            f"The data under {place} in the store build on those of backup {', '.join(strangers)}, "
            "on which the record does not build."
        )
    for source, digests in (await run_to_end(lambda: _by_place(manifest))).items():
        if missing := len(digests - await store.find_pieces(source)):
            raise Conflict(f"{missing} pieces of data are missing under {source} in the store.")


def _by_place(manifest: Manifest) -> Mapping[str, set[str]]:
    found: dict[str, set[str]] = {}
    for digest, place in manifest.places().items():
        found.setdefault(place, set()).add(digest)
    return found
