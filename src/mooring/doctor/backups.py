"""Backups have a living owner while they change, and data exactly when they say so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mooring.doctor.books import Books
from mooring.doctor.findings import Finding
from mooring.volume.backups.backup_rows import TRANSITIONAL

_RETRY = "Start the cloud; what it does not mend within a minute is a bug worth reporting."
_RESET = "openstack volume backup set --state takes it back."
_DELETE = "Delete the backup: it cannot be restored."
_REACH = "See to it that the control plane reaches the store, and look again."
_REPORT = (
    "Nothing was removed. It is of a backup that this cloud does not know any more: see what it is"
    " before you remove the directory, or the objects, of that name by hand."
)


def look(books: Books) -> Iterator[Finding]:
    """Yield what has no owner, and what database and store tell differently."""
    yield from _owners(books)
    if "" in books.stored_backups:
        problem = books.stored_backups[""]["problem"]
        if books.backups:
            yield Finding("store of backups", "disagreement", problem, _REACH)
        return
    yield from _data(books)


def _owners(books: Books) -> Iterator[Finding]:
    for backup_id, row in books.backups.items():
        thing, status = f"backup {backup_id}", row["status"]
        if row["saga_id"]:
            if row["saga_id"] not in books.living:
                message = f"it waits for operation {row['saga_id']}, which has ended"
                yield Finding(thing, "owner", message, _RETRY)
        elif status in TRANSITIONAL and not books.is_busy(f"backup:{backup_id}"):
            by = f"user {row['borrowed_by']}" if row["borrowed_by"] else "nobody"
            message = f"{status}, by the word of {by}, and no operation"
            yield Finding(thing, "owner", message, _RESET if row["borrowed_by"] else _RETRY)


def _data(books: Books) -> Iterator[Finding]:
    places = {each: _place_of(each, row) for each, row in books.backups.items()}
    for backup_id, row in books.backups.items():
        stored = books.stored_backups.get(places[backup_id], {})
        is_idle = not books.is_busy(f"backup:{backup_id}", f"volume:{row['volume_id']}")
        if row["status"] == "available" and not stored.get("whole") and is_idle:
            message = "its data are not there, or not whole"
            yield Finding(f"backup {backup_id}", "disagreement", message, _DELETE)
        if row["status"] == "error" and not stored.get("whole", True) and is_idle:
            message = "it failed, and some of its data are left in the store"
            yield Finding(f"backup {backup_id}", "disagreement", message, _DELETE)
    explained = {*places.values()}
    for backup_id in books.stored_backups:
        if backup_id not in explained and not books.is_busy(f"backup:{backup_id}"):
            message = "data in the store of backups that no backup explains"
            yield Finding(f"backup {backup_id}", "orphan", message, _REPORT)


def _place_of(backup_id: str, row: dict[str, Any]) -> str:
    """Return under what id the data of a backup lie in the store; "" where it has none there."""
    return backup_id if row["stored_as"] is None else row["stored_as"]
