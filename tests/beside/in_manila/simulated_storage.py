"""Manila's dummy driver on the storage of Mooring's simulated hosts: it makes what they mount.

Imported by a real `manila-share`, in whose environment nothing of Mooring is. The storage is the
file that the variable SIMULATED_STORAGE names, with the tables of
`mooring.agent.simulated_share_pool`: who is let in by no rule of Manila's mounts nothing.
"""

from __future__ import annotations

import importlib
import os
import secrets
import sqlite3
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Values = Mapping[str, Any]
TYPES = {"NFS": "ip", "CEPHFS": "cephx"}
REFUSES = ".refuses"
"""Of the file beside the storage with which it lets nobody in."""
SERVERS = {"NFS": "127.0.0.1", "CEPHFS": "127.0.0.1:6789"}
_dummy: Any = importlib.import_module("manila.tests.share.drivers.dummy")
_exceptions: Any = importlib.import_module("manila.exception")


@contextmanager
def _storage() -> Generator[sqlite3.Connection]:
    connection = sqlite3.connect(os.environ["SIMULATED_STORAGE"], timeout=30.0)
    try:
        with connection:
            yield connection
    finally:
        connection.close()


class SimulatedStorage(_dummy.DummyDriver):
    """Takes as long as the dummy driver is told to, and has shares of NFS and of CephFS."""

    def _create_share(self, context: Any, share: Values, share_server: Any = None) -> list[Values]:
        """Make a share, and return its export locations: that for users is not the first one."""
        del context, share_server
        protocol, share_id = share["share_proto"], share["share_id"]
        place = f"{SERVERS[protocol]}:{os.environ['SIMULATED_STORAGE']}/share-{share_id}"
        with _storage() as storage:
            storage.execute("INSERT INTO shares VALUES (?, ?, 0)", (share_id, share["size"]))
        return [
            self._get_export(f"/{share_id}", "192.0.2.1", is_admin_only=True, preferred=True),
            self._get_export(f"/{share_id}", "192.0.2.2", is_admin_only=False, preferred=False),
            {"path": place, "metadata": {"preferred": True}, "is_admin_only": False},
        ]

    def get_share_stats(self, *refresh: Any, **how: Any) -> Values:
        """Return what it can; the scheduler looks for the protocol of a share in it."""
        told: Values = _dummy.DummyDriver.get_share_stats(self, *refresh, **how)
        return {**told, "storage_protocol": "_".join(TYPES)}

    def delete_share(self, context: Any, share: Values, share_server: Any = None) -> None:
        """Remove a share, whatever is left of it."""
        del context, share_server
        with _storage() as storage:
            storage.execute("DELETE FROM rules WHERE share_id = ?", (share["share_id"],))
            storage.execute("DELETE FROM shares WHERE id = ?", (share["share_id"],))

    @_dummy.slow_me_down
    def update_access(
        self, context: Any, share: Values, access_rules: Sequence[Values], *changes: Any, **how: Any
    ) -> Mapping[str, Values]:
        """Let in who has a rule, and nobody else; return the keys of clients of CephFS."""
        del context, changes, how
        kind, share_id = TYPES[share["share_proto"]], share["share_id"]
        if any(rule["access_type"] != kind for rule in access_rules):
            raise _exceptions.InvalidShareAccess(reason=f"only {kind}")
        if access_rules and Path(os.environ["SIMULATED_STORAGE"] + REFUSES).exists():
            raise _exceptions.ShareBackendException(msg="it lets nobody in")
        with _storage() as storage:
            storage.execute("DELETE FROM rules WHERE share_id = ?", (share_id,))
            for rule in access_rules:
                given = (rule["access_id"], kind, rule["access_to"], rule["access_level"])
                storage.execute(
                    "INSERT INTO rules VALUES (?, ?, ?, ?, ?, ?, NULL)",
                    (share_id, *given, time.time()),
                )
            if kind == "ip":
                return {}
            return {
                rule["access_id"]: {"access_key": _key_of(storage, rule["access_to"], share)}
                for rule in access_rules
            }


def _key_of(storage: sqlite3.Connection, client: str, share: Values) -> str:
    """Return the key of a client, who has one from the first time on."""
    storage.execute(
        "INSERT OR IGNORE INTO clients VALUES (?, ?, ?)",
        (client, share["project_id"], secrets.token_urlsafe(16)),
    )
    found = storage.execute("SELECT access_key FROM clients WHERE id = ?", (client,))
    return found.fetchone()[0]
