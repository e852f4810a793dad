"""What the headers of a simulated volume's files would say: which file each overlay stands on.

A pool's chain is what its driver has written down. A guest's hypervisor changes the files behind
that; what it has changed stands here, and of every other file the chain tells.
"""

from __future__ import annotations

import sqlite3
from typing import TypeAlias

from mooring.agent import simulated_pool
from mooring.agent.drivers.chains import Chain

Named: TypeAlias = tuple[str, str]
"""A file's name, and its format."""


def backing(connection: sqlite3.Connection, volume_id: str, file: str) -> Named | None:
    """Return what a file of a volume stands on; None when it stands alone."""
    query = "SELECT backing, format FROM headers WHERE volume_id = ? AND file = ?"
    row = connection.execute(query, (volume_id, file)).fetchone()
    if row is not None:
        return (row[0], row[1]) if row[0] else None
    chain = simulated_pool.chain_of(connection, volume_id)
    layers = [*chain.layers, *([chain.pending] if chain.pending else [])]
    at = next((at for at, layer in enumerate(layers) if layer.file == file), 0)
    return (layers[at - 1].file, layers[at - 1].format) if at else None


def is_merged(connection: sqlite3.Connection, volume_id: str, snapshot_id: str) -> bool:
    """Return whether the files of a snapshot that was taken are merged, as planned."""
    chain = simulated_pool.chain_of(connection, volume_id)
    plan, at = chain.plan(snapshot_id), chain.place(snapshot_id)
    is_newest = plan.merge_target_file is None
    upper = chain.active if is_newest else chain.layers[at + 1]
    stands_on = backing(connection, volume_id, upper.file)
    return (stands_on[0] if stands_on else None) == (plan.merge_target_file or plan.file_to_merge)


def put(connection: sqlite3.Connection, volume_id: str, file: str, on: Named | None) -> None:
    """Let a file stand on another, or alone."""
    row = (volume_id, file, *(on or ("", "")))
    connection.execute("INSERT OR REPLACE INTO headers VALUES (?, ?, ?, ?)", row)


def commit(connection: sqlite3.Connection, volume_id: str, chain: Chain, at: int) -> None:
    """Let what stood on a file of a chain stand on the one below that, and the file be gone."""
    if at + 1 < len(chain.layers):
        below = chain.layers[at - 1]
        put(connection, volume_id, chain.layers[at + 1].file, (below.file, below.format))
    drop(connection, volume_id, chain.layers[at].file)


def drop(connection: sqlite3.Connection, volume_id: str, file: str) -> None:
    """Forget what a file says that is gone, or is made anew."""
    connection.execute("DELETE FROM headers WHERE volume_id = ? AND file = ?", (volume_id, file))


def files_below(path: str) -> list[Named] | None:
    """Return what lies below the file behind a device path, from the top down.

    None for one that the pool knows nothing of: an overlay of the release before, which kept no
    headers, or one that no driver made.
    """
    found: list[Named] = []
    with simulated_pool.opened(path) as (connection, volume_id):
        file = path.rpartition("/")[2]
        query = "SELECT 1 FROM headers WHERE volume_id = ? AND file = ?"
        is_kept = connection.execute(query, (volume_id, file)).fetchone() is not None
        if not is_kept and file not in simulated_pool.chain_of(connection, volume_id).files:
            return None
        while (below := backing(connection, volume_id, file)) is not None:
            found.append(below)
            file = below[0]
    return found


def put_below(path: str, file: str, on: Named | None) -> None:
    """Let a file of the volume behind a device path stand on another, or alone."""
    with simulated_pool.opened(path) as (connection, volume_id):
        put(connection, volume_id, file, on)
