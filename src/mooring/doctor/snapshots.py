"""Snapshots have a living owner while they change, and files exactly when they say so."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from mooring.doctor.books import Books
from mooring.doctor.findings import Finding
from mooring.doctor.owners import BORROWED_FOR
from mooring.volume.snapshots.snapshots import TRANSITIONAL

_RETRY = "Start the cloud; what it does not mend within a minute is a bug worth reporting."
_DELETE = "Delete the snapshot: that merges its files, and the volume keeps all that it holds."
_LEAVES_FOR = timedelta(days=1)
"""How long one that is to go may wait for its server's host; its owner was told at once."""
_LEAVES = (
    "It was taken for a backup or an image, and goes by itself: that is tried every few minutes. "
    "Where its server's host is down, start that, or evacuate its servers."
)
_REPORT = "Nothing was removed. See what it is before you remove it by hand."


def look(books: Books) -> Iterator[Finding]:
    """Yield what has no owner, and what database and storage tell differently."""
    yield from _owners(books)
    yield from _files(books)


def _owners(books: Books) -> Iterator[Finding]:
    for snapshot_id, row in books.snapshots.items():
        thing, status = f"snapshot {snapshot_id}", row["status"]
        if row["saga_id"]:
            if row["saga_id"] not in books.living:
                message = f"it waits for operation {row['saga_id']}, which has ended"
                yield Finding(thing, "owner", message, _RETRY)
        elif status in TRANSITIONAL and row["borrowed_at"] is None:
            yield Finding(thing, "owner", f"{status}, and no operation", _RETRY)
        elif status in TRANSITIONAL and books.at - row["borrowed_at"] > BORROWED_FOR:
            message = f"{status} on behalf of user {row['borrowed_by']} since {row['borrowed_at']}"
            yield Finding(thing, "owner", message, _RETRY)
        elif row["leaves_since"] and books.at - row["leaves_since"] > _LEAVES_FOR:
            message = f"{status}, and is to go since {row['leaves_since']}"
            yield Finding(thing, "owner", message, _LEAVES)


def _files(books: Books) -> Iterator[Finding]:
    held = {
        (file.volume_id, snapshot_id)
        for inventory in books.inventories.values()
        for file in inventory.volumes
        for snapshot_id in file.snapshots
    }
    # Of these the storage does not tell what snapshots they have.
    damaged = {
        (inventory.name, file.volume_id)
        for inventory in books.inventories.values()
        for file in inventory.volumes
        if file.problem
    }
    for snapshot_id, row in books.snapshots.items():
        volume_id = row["volume_id"]
        volume = books.volumes.get(volume_id)
        backend = (volume or {}).get("backend") or ""
        host, pool = backend.partition("@")[0], backend.partition("#")[2]
        if books.is_busy(f"volume:{volume_id}") or host not in books.inventories:
            continue
        if pool in books.inventories[host].unread_pools or (host, volume_id) in damaged:
            continue
        if row["status"] == "available" and (volume_id, snapshot_id) not in held:
            message = f"host {host} has no file of it"
            yield Finding(f"snapshot {snapshot_id}", "disagreement", message, _DELETE)
    for volume_id, snapshot_id in sorted(held):
        if snapshot_id not in books.snapshots and not books.is_busy(f"volume:{volume_id}"):
            message = f"a file of volume {volume_id} that no snapshot explains"
            yield Finding(f"snapshot {snapshot_id}", "orphan", message, _REPORT)
