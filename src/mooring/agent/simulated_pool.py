"""The file behind a simulated pool: its volumes, who may reach them, who has opened them.

Simulated guests of every host of the machine find it by the path in their connection, as QEMU finds
an image: they read how big a volume is, and make it grow.
"""

from __future__ import annotations

import os
import re
import sqlite3
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from mooring import typed
from mooring.agent import world
from mooring.agent.drivers.chains import Chain, Layer
from mooring.errors import NotFound
from mooring.write_ahead import set_write_ahead

_TABLES = """
CREATE TABLE IF NOT EXISTS volumes (
    id TEXT PRIMARY KEY, size_gib INTEGER NOT NULL, format TEXT NOT NULL, image_id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS grown (volume_id TEXT PRIMARY KEY, virtual_bytes INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS openers (
    volume_id TEXT, world TEXT, PRIMARY KEY (volume_id, world));
CREATE TABLE IF NOT EXISTS chains (volume_id TEXT PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS headers (
    volume_id TEXT, file TEXT, backing TEXT NOT NULL, format TEXT NOT NULL,
    PRIMARY KEY (volume_id, file));
CREATE TABLE IF NOT EXISTS exports (
    volume_id TEXT, attachment_id TEXT, host TEXT, since REAL NOT NULL, until REAL);
CREATE INDEX IF NOT EXISTS exports_by_volume ON exports (volume_id);
CREATE TABLE IF NOT EXISTS becoming (volume_id TEXT PRIMARY KEY, new_id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS identity (only INTEGER PRIMARY KEY, word TEXT NOT NULL);
"""
SELECT = """
SELECT id, coalesce(virtual_bytes, size_gib << 30), format FROM volumes
LEFT JOIN grown ON volume_id = id
"""
"""Id, virtual size in bytes, format."""
# A volume with overlays is reached by the newest: volume-<id>.<snapshot>.
_PATH = re.compile(r"simulated:(/.+)/volume-([\w-]+)(?:\.[\w.-]+)?")
PREFIX = "volume-"


def open_pool(file: Path) -> sqlite3.Connection:
    """Open a pool's file, making it if need be."""
    connection = sqlite3.connect(file, isolation_level=None)
    set_write_ahead(connection)
    connection.execute("PRAGMA synchronous=OFF")
    connection.executescript(_TABLES)
    connection.execute("INSERT OR IGNORE INTO identity VALUES (1, ?)", (str(uuid.uuid4()),))
    return connection


def identity(connection: sqlite3.Connection) -> str:
    """Return what the pool calls itself, to every host that has its file."""
    return connection.execute("SELECT word FROM identity").fetchone()[0]


def count(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return how many volumes the pool has, and how many whole GiB they have in all."""
    query = """
        SELECT count(*), coalesce(sum(coalesce(virtual_bytes >> 30, size_gib)), 0)
        FROM volumes LEFT JOIN grown ON volume_id = id
    """
    volumes, provisioned_gib = connection.execute(query).fetchone()
    return volumes, provisioned_gib


def add(connection: sqlite3.Connection, row: tuple[str, int, str, str], becomes: str) -> None:
    """Write a volume down: id, GiB, format, image; `becomes`: under what id it is reached."""
    with connection:
        connection.execute("BEGIN")
        connection.execute("INSERT INTO volumes VALUES (?, ?, ?, ?)", row)
        if becomes:
            connection.execute("INSERT OR REPLACE INTO becoming VALUES (?, ?)", (row[0], becomes))


def path_of(connection: sqlite3.Connection, file: Path, volume_id: str) -> str:
    """Return the device path of a volume: of its active file, when it has snapshots."""
    return f"simulated:{file}/{chain_of(connection, volume_id).active.file}"


def chain_of(connection: sqlite3.Connection, volume_id: str) -> Chain:
    """Return the files that a volume would consist of."""
    query = "SELECT body FROM chains WHERE volume_id = ?"
    row = connection.execute(query, (volume_id,)).fetchone()
    if row is not None:
        return typed.decode(row[0], Chain)
    query = "SELECT format FROM volumes WHERE id = ?"
    found = connection.execute(query, (volume_id,)).fetchone()
    name = _reached_as(connection, volume_id)
    return Chain((Layer(f"{PREFIX}{name}", found[0] if found else "raw"),))


def new_id_of(connection: sqlite3.Connection, volume_id: str) -> str:
    """Return the id that a volume was made to get, and has not got yet; "" for none."""
    query = "SELECT new_id FROM becoming WHERE volume_id = ?"
    row = connection.execute(query, (volume_id,)).fetchone()
    return row[0] if row else ""


def _reached_as(connection: sqlite3.Connection, volume_id: str) -> str:
    """Return under what id guests have a volume: another one while it is to become that."""
    return new_id_of(connection, volume_id) or volume_id


def keep_chain(connection: sqlite3.Connection, volume_id: str, chain: Chain) -> None:
    """Write down what files a volume would consist of."""
    connection.execute(
        "INSERT OR REPLACE INTO chains VALUES (?, ?)", (volume_id, msgspec.json.encode(chain))
    )


def is_path(path: str) -> bool:
    """Return whether a device path is one of a simulated pool that is on this machine."""
    found = _PATH.fullmatch(path)
    return found is not None and Path(found[1]).exists()


def read_virtual_bytes(path: str) -> int:
    """Return how big the volume behind a device path is. Raises NotFound."""
    with opened(path) as (connection, volume_id):
        row = connection.execute(f"{SELECT} WHERE id = ?", (volume_id,)).fetchone()
    if row is None:
        raise NotFound(f"The simulated pool has no volume {volume_id}.", private=path)
    return row[1]


def count_layers(path: str) -> int:
    """Return of how many files the volume behind a device path would consist."""
    with opened(path) as (connection, volume_id):
        return len(chain_of(connection, volume_id).layers)


def grow(path: str, size_bytes: int) -> None:
    """Set how big the volume behind a device path is."""
    with opened(path) as (connection, volume_id):
        grow_in(connection, volume_id, size_bytes)


def grow_in(connection: sqlite3.Connection, volume_id: str, size_bytes: int) -> None:
    """Set how big a volume is."""
    connection.execute("INSERT OR REPLACE INTO grown VALUES (?, ?)", (volume_id, size_bytes))


def note_opener(path: str, world_file: Path) -> None:
    """Note that guests of a world may open a volume; whether one has is read from that world.

    The world is named as seen from the pool, so that a copy of both is a cloud of its own.
    """
    with opened(path) as (connection, volume_id):
        name = os.path.relpath(world_file, _directory(connection))
        connection.execute("INSERT OR IGNORE INTO openers VALUES (?, ?)", (volume_id, name))


def is_open(connection: sqlite3.Connection, volume_id: str) -> bool:
    """Return whether a running guest has a volume open to write to, alone or with others."""
    name = _reached_as(connection, volume_id)
    return any(world.is_written(file, name) for file in _worlds(connection, volume_id))


def is_locked(connection: sqlite3.Connection, volume_id: str) -> bool:
    """Return whether a running guest keeps a volume to itself, as the lock by which qemu-img fails.

    QEMUs that share a raw image (`share-rw`) take none: it can be made longer behind them.
    """
    name = _reached_as(connection, volume_id)
    found = (world.writers(file, name) for file in _worlds(connection, volume_id))
    return any(not shares for writers in found for _, shares in writers)


def find_open_file(connection: sqlite3.Connection, volume_id: str) -> str:
    """Return the name of the file that a running guest writes to, "" when none does."""
    name = _reached_as(connection, volume_id)
    found = (world.find_path(file, name) for file in _worlds(connection, volume_id))
    return next((path.rpartition("/")[2] for path in found if path), "")


def is_held(path: str, guest: tuple[Path, str], *, shareable: bool) -> bool:
    """Return whether another guest, here or elsewhere, has a volume that this one is to open.

    `guest` is its world's file and its server. As QEMU's locks tell: guests that all have the
    volume to share are in nobody's way.
    """
    with opened(path) as (connection, volume_id):
        worlds, name = _worlds(connection, volume_id), _reached_as(connection, volume_id)
    return any(
        (file.resolve(), server_id) != (guest[0].resolve(), guest[1])
        for file in worlds
        for server_id, shares in world.writers(file, name)
        if not (shareable and shares)
    )


def _worlds(connection: sqlite3.Connection, volume_id: str) -> list[Path]:
    query = "SELECT world FROM openers WHERE volume_id = ?"
    directory = _directory(connection)
    return [directory / row[0] for row in connection.execute(query, (volume_id,))]


def _directory(connection: sqlite3.Connection) -> Path:
    file: str = connection.execute("PRAGMA database_list").fetchone()[2]
    return Path(file).parent


def forget(connection: sqlite3.Connection, volume_id: str) -> None:
    """Strike a volume."""
    with connection:
        connection.execute("BEGIN")
        connection.execute("DELETE FROM volumes WHERE id = ?", (volume_id,))
        connection.execute("DELETE FROM grown WHERE volume_id = ?", (volume_id,))
        connection.execute("DELETE FROM openers WHERE volume_id = ?", (volume_id,))
        connection.execute("DELETE FROM chains WHERE volume_id = ?", (volume_id,))
        connection.execute("DELETE FROM headers WHERE volume_id = ?", (volume_id,))
        connection.execute("DELETE FROM becoming WHERE volume_id = ?", (volume_id,))


def rename(connection: sqlite3.Connection, volume_id: str, new_id: str) -> None:
    """Give a volume another id; nothing when there is none of the first.

    Raises Conflict for one with snapshots.
    """
    chain, ids = chain_of(connection, volume_id), (new_id, volume_id)
    chain.require_alone(volume_id)
    with connection:
        connection.execute("BEGIN")
        named = "UPDATE volumes SET id = ?, format = ? WHERE id = ?"
        connection.execute(named, (new_id, chain.active.format, volume_id))
        connection.execute("DELETE FROM chains WHERE volume_id = ?", (volume_id,))
        connection.execute("DELETE FROM headers WHERE volume_id = ?", (volume_id,))
        connection.execute("UPDATE OR REPLACE grown SET volume_id = ? WHERE volume_id = ?", ids)
        connection.execute("UPDATE OR REPLACE openers SET volume_id = ? WHERE volume_id = ?", ids)
        connection.execute("UPDATE exports SET volume_id = ? WHERE volume_id = ?", ids)
        connection.execute("DELETE FROM becoming WHERE volume_id = ?", (volume_id,))


@contextmanager
def opened(path: str) -> Generator[tuple[sqlite3.Connection, str]]:
    """Give the pool behind a device path, and the id of the volume there. Raises NotFound."""
    found = _PATH.fullmatch(path)
    if found is None or not Path(found[1]).exists():
        raise NotFound(
            "The simulated pool of a disk is not on this machine; connect the disk anew.",
            private=path,
        )
    connection = sqlite3.connect(found[1], isolation_level=None)
    try:
        query = "SELECT volume_id FROM becoming WHERE new_id = ?"
        row = connection.execute(query, (found[2],)).fetchone()
        yield connection, row[0] if row else found[2]
    finally:
        connection.close()
