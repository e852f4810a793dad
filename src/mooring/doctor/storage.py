"""Volumes and what hosts have of them tell the same story, also of those on their way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mooring.agent_api.hosts import Inventory
from mooring.agent_api.volumes import VolumeFile
from mooring.doctor.books import Books
from mooring.doctor.findings import Finding

_GIB = 1024**3
_REPORT = "Nothing was removed. See what it is before you remove it by hand."
_MEND = "Its data stay as they are meanwhile."
_TAKE = (
    "Its guest may find the storage full. Make room in the pool, and extend the volume: on NFS "
    "below 4.2 while no server has it."
)


def look(books: Books) -> Iterator[Finding]:
    """Yield every volume without its storage, and all storage without its volume."""
    yield from _volumes(books)
    for inventory in books.inventories.values():
        for file in inventory.volumes:
            yield from _file(books, inventory, file)


def _volumes(books: Books) -> Iterator[Finding]:
    files = {
        (inventory.name, file.pool, file.volume_id): file
        for inventory in books.inventories.values()
        for file in inventory.volumes
    }
    for volume_id, row in books.volumes.items():
        host, pool = _split(row["backend"])
        if books.is_busy(f"volume:{volume_id}") or host not in books.inventories:
            continue
        file = files.get((host, pool, volume_id))
        if _is_copy(row):
            file = files.get((host, pool, row["copy_id"]), file)
        thing = f"volume {volume_id}"
        is_read = pool not in books.inventories[host].unread_pools
        is_made = row["launched_at"] is not None and not row["status"].startswith("err")
        if file is None and is_read and is_made:
            message = f"host {host} has no storage of it"
            yield Finding(thing, "disagreement", message, "Restore it, or delete the volume.")
        elif file is not None and not file.problem and _bytes_of(file) != row["size_gib"] * _GIB:
            there = _bytes_of(file) / _GIB
            message = f"{row['size_gib']} GiB here and {there:.10g} GiB on host {host}"
            yield Finding(thing, "disagreement", message, _REPORT)


def _file(books: Books, inventory: Inventory, file: VolumeFile) -> Iterator[Finding]:
    row, thing = _volume_of(books, file), f"volume {file.volume_id}"
    if books.is_busy(f"volume:{row['id'] if row else file.volume_id}"):
        return
    if row is None:
        message = f"storage on host {inventory.name} that no volume explains"
        yield Finding(thing, "orphan", message, _REPORT)
        return
    if _is_stale(books, row, (inventory.name, file.pool)):
        message = (
            f"storage in pool {file.pool} of host {inventory.name}, and the volume is in "
            f"{row['backend']}"
        )
        yield Finding(thing, "orphan", message, _REPORT)
    if file.problem:
        message = f"on host {inventory.name}: {file.problem}"
        yield Finding(thing, "disagreement", message, _MEND)
    if file.untaken_bytes:
        message = f"{file.untaken_bytes / _GIB:.10g} GiB of it have no space in pool {file.pool}"
        yield Finding(thing, "disagreement", message, _TAKE)
    for attachment_id in file.exports:
        if attachment_id not in books.attachments and attachment_id not in books.exports:
            message = f"exported for attachment {attachment_id}, which does not exist"
            yield Finding(thing, "orphan", message, _REPORT)


def _volume_of(books: Books, file: VolumeFile) -> dict[str, Any] | None:
    """Return the volume that has a file, as its storage or as the copy that is to be that."""
    if (row := books.volumes.get(file.volume_id)) is not None:
        return row
    return books.copies.get(file.volume_id)


def _is_copy(row: dict[str, Any]) -> bool:
    """Whether a volume is the copy of what it was, which has not got its id yet."""
    return row["copy_id"] is not None and row["moves_to"] == row["backend"]


def _is_stale(books: Books, row: dict[str, Any], place: tuple[str, str]) -> bool:
    """Whether the storage at a host's pool is not the volume's, nor to be it or to be removed.

    Where either pool's identity is not known, it may be what several hosts see.
    """
    own = _split(row["backend"])
    if row["copy_id"] is not None or not own[0] or place == own:
        return False
    here, there = books.identities.get(place, ""), books.identities.get(own, "")
    return bool(here and there) and here != there


def _split(backend: str | None) -> tuple[str, str]:
    """Return host and pool of `host@driver#pool`."""
    host, _, rest = (backend or "").partition("@")
    return host, rest.partition("#")[2]


def _bytes_of(file: VolumeFile) -> int:
    """Return what a guest sees of it; of a header that cannot be read, what was made."""
    return file.virtual_bytes or file.size_gib * _GIB
