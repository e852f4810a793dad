"""What happened in a cloud, written down by its databases themselves, and what must not have.

Triggers note each committed change of a status, so nothing that clients could have seen is missed.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import text

from mooring.agent.world import Written
from mooring.store.base import Store

_LOG = "CREATE TABLE law_log (id TEXT, was TEXT, became TEXT)"
_NOTE = "INSERT INTO law_log VALUES"
_WATCHED = {
    # The copy of a volume in use is no volume to anybody: it has no project, and goes as it is.
    "volume": ("volumes", "status", "WHEN {row}.project_id <> ''"),
    "compute": ("servers", "vm_state", ""),
    "share": ("shares", "status", ""),
}
_MOMENTS = (
    ("changed", "UPDATE OF {column}", "NEW.id, OLD.{column}, NEW.{column}"),
    ("made", "INSERT", "NEW.id, 'nothing', NEW.{column}"),
    ("gone", "DELETE", "OLD.id, OLD.{column}, 'gone'"),
)

# facts/block_storage.md 1.1 and 1.10. An administrator's reset may lead from any status to error.
_VOLUME = {
    "nothing": {"creating"},
    "creating": {"downloading", "available", "error", "deleting"},
    "downloading": {"available", "reserved", "error", "deleting"},
    "available": {"reserved", "attaching", "maintenance", "retyping", "deleting", "error"},
    "maintenance": {"available", "deleting", "error"},
    "retyping": {"available", "deleting", "error"},
    "reserved": {"available", "downloading", "attaching", "in-use", "deleting", "error"},
    "attaching": {"available", "reserved", "in-use", "deleting", "error"},
    "in-use": {"detaching", "available", "attaching", "reserved", "deleting", "error"},
    # Reserved where another server, which was put away, keeps a volume of several servers.
    "detaching": {"in-use", "available", "reserved", "deleting", "error"},
    "deleting": {"gone", "error_deleting"},
    "error_deleting": {"deleting", "error"},
    "error": {"deleting", "in-use", "attaching", "available", "reserved"},
}
_SHELVED, _OFFLOADED = "shelved", "shelved_offloaded"
_AWAY = (_SHELVED, _OFFLOADED)
# facts/compute.md 1.1. A server whose request was refused after all never was: its row goes.
_SERVER = {
    "nothing": {"building"},
    "building": {"active", "error", "deleted", "gone"},
    "active": {
        *("stopped", "paused", "suspended", "resized", "rescued", *_AWAY, "error", "deleted")
    },
    "paused": {"active", "stopped", *_AWAY, "error", "deleted"},
    "suspended": {"active", "stopped", *_AWAY, "error", "deleted"},
    "stopped": {"active", "resized", "rescued", *_AWAY, "error", "deleted"},
    # One whose guest was left off by the way back, which found no start.
    "rescued": {"active", "stopped", "error", "deleted"},
    "resized": {"active", "stopped", "error", "deleted"},
    "error": {"active", "stopped", "paused", "suspended", "rescued", _OFFLOADED, "deleted"},
    # A server with its root disk on its host stays there until that is asked to let it go.
    _SHELVED: {"active", _OFFLOADED, "error", "deleted"},
    _OFFLOADED: {"active", "error", "deleted"},
}
# facts/shared_file_systems.md 3.1. An administrator may delete by force, or reset, from anywhere.
_SHARE = {
    "nothing": {"creating"},
    "creating": {"available", "error", "deleting"},
    "available": {"extending", "shrinking", "deleting", "error"},
    "extending": {"available", "extending_error", "deleting", "error"},
    "shrinking": {"available", "shrinking_error", "deleting", "error"},
    "extending_error": {"available", "deleting", "error"},
    "shrinking_error": {"available", "deleting", "error"},
    "deleting": {"gone", "error_deleting", "available", "error"},
    "error_deleting": {"deleting", "available", "error"},
    "error": {"available", "deleting", "error_deleting"},
}
_MACHINES = {"volume": _VOLUME, "compute": _SERVER, "share": _SHARE}


def watch(state_dir: Path) -> None:
    """Let the databases of a cloud note what happens from now on."""
    for service, (table, column, when) in _WATCHED.items():
        connection = sqlite3.connect(state_dir / f"{service}.sqlite")
        connection.execute(_LOG)
        for name, moment, row in _MOMENTS:
            event, values = moment.format(column=column), row.format(column=column)
            connection.execute(
                f"CREATE TRIGGER law_{name} AFTER {event} ON {table} "
                f"{when.format(row=values.partition('.')[0])} BEGIN {_NOTE} ({values}); END"
            )
        connection.commit()
        connection.close()


def find_forbidden(state_dir: Path) -> list[str]:
    """Return the changes of a status that no edge allows, and what returned after its end."""
    found: list[str] = []
    for service, machine in _MACHINES.items():
        connection = sqlite3.connect(state_dir / f"{service}.sqlite")
        for identity, was, became in connection.execute("SELECT * FROM law_log"):
            if became != was and became not in machine.get(was, set()):
                found.append(f"{service} {identity} went from {was} to {became}")
        connection.close()
    return found


async def find_unfinished(compute: Store) -> list[str]:
    """Return the events of requests that were accepted and have neither effect nor fault."""
    query = text(
        "SELECT a.server_id, a.action, e.event FROM instance_action_events e "
        "JOIN instance_actions a ON a.id = e.action_id WHERE e.finished_at IS NULL"
    )
    rows = await compute.read(lambda tx: tx.execute(query).all())
    return [f"{server}: {action} ({event})" for server, action, event in rows]


def find_overlaps(ledger: Iterable[Written]) -> list[str]:
    """Return the volumes that two guests could write to at one time."""
    found: list[str] = []
    spans = sorted(ledger, key=lambda span: (span.volume_id, span.since))
    for one, other in itertools.pairwise(spans):
        same = one.volume_id == other.volume_id and one.writer != other.writer
        ended = one.until is not None and one.until <= other.since
        if same and not ended and not (one.shared and other.shared):
            found.append(f"{one.writer} and {other.writer} could both write to {one.volume_id}")
    return found
