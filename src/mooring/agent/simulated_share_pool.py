"""The file behind a simulated pool of shares: what there is, what is in it, who may mount it.

Simulated hosts of the machine find it by the path in an export location, as real ones find a
server, and ask it whether they may mount the share.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from mooring.agent.share_drivers.rules import find_level
from mooring.agent_api.shares import AccessLevel
from mooring.errors import Forbidden, NotFound
from mooring.write_ahead import set_write_ahead

_TABLES = """
CREATE TABLE IF NOT EXISTS shares (
    id TEXT PRIMARY KEY, size_gb INTEGER NOT NULL, used_bytes INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS snapshots (
    share_id TEXT, id TEXT, size_gb INTEGER NOT NULL, used_bytes INTEGER NOT NULL,
    PRIMARY KEY (share_id, id));
CREATE TABLE IF NOT EXISTS clients (
    id TEXT PRIMARY KEY, project_id TEXT NOT NULL, access_key TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS rules (
    share_id TEXT, rule_id TEXT, type TEXT, client TEXT, level TEXT, since REAL NOT NULL,
    until REAL);
"""
_PREFIX = "/share-"
_PATH = re.compile(rf"[^/]*:(/.+){_PREFIX}([\w-]+)")


def open_pool(file: Path) -> sqlite3.Connection:
    """Open a pool's file, making it if need be."""
    connection = sqlite3.connect(file, isolation_level=None)
    set_write_ahead(connection)
    connection.execute("PRAGMA synchronous=OFF")
    connection.executescript(_TABLES)
    return connection


def path_of(servers: str, file: Path, share_id: str) -> str:
    """Return the export location of a share, at servers as clients write them."""
    return f"{servers}:{file}{_PREFIX}{share_id}"


def mount(path: str, client: str, access_key: str = "") -> AccessLevel:
    """Return how a client may mount the share at an export location.

    `client` is an IP address, or a cephx id, which goes with its key. Raises NotFound when there is
    no such share on this machine, Forbidden when no rule lets the client in.
    """
    found = _PATH.fullmatch(path)
    if found is None or not Path(found[1]).exists():
        raise NotFound("No simulated pool of this machine has that export.", private=path)
    connection = sqlite3.connect(found[1], isolation_level=None)
    try:
        level = _level(connection, found[2], client, access_key)
    finally:
        connection.close()
    if level is None:
        raise Forbidden(f"No rule of share {found[2]} lets {client} mount it.")
    return level


def _level(
    connection: sqlite3.Connection, share_id: str, client: str, access_key: str
) -> AccessLevel | None:
    query = "SELECT type, client, level FROM rules WHERE share_id = ? AND until IS NULL"
    rules = connection.execute(query, (share_id,)).fetchall()
    networks = {to: level for kind, to, level in rules if kind == "ip"}
    if networks:
        return find_level(networks, client)
    query = "SELECT 1 FROM clients WHERE id = ? AND access_key = ?"
    if connection.execute(query, (client, access_key)).fetchone() is None:
        return None
    return next((level for kind, to, level in rules if (kind, to) == ("cephx", client)), None)
