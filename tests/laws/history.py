"""What happened in a cloud, written down by its databases themselves, and what must not have.

Triggers note each committed change of a status, so nothing that clients could have seen is missed.
"""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Iterable
from typing import Any

import psycopg
from sqlalchemy import text

from mooring.agent.world import Written
from mooring.config import Settings
from mooring.store.base import Store

_LOG = "CREATE TABLE {log} (kind TEXT, id TEXT, was TEXT, became TEXT, at DOUBLE PRECISION)"
_NOTE = "INSERT INTO {log} VALUES ('{table}', {values}, {now})"
_FINE = 0.002
"""As fine as SQLite tells the time, in seconds, and some."""
_WATCHED = {
    # The copy of a volume in use is no volume to anybody: it has no project, and goes as it is.
    "volumes": ("volume", "status", "WHEN ({row}.project_id <> '')"),
    "backups": ("volume", "status", ""),
    "snapshots": ("volume", "status", ""),
    "images": ("image", "status", ""),
    "servers": ("compute", "vm_state", ""),
    "shares": ("share", "status", ""),
}
"""Tables, each with its service, the column, and which of its rows count."""
_MOMENTS = (
    ("changed", "UPDATE OF {column}", "NEW.id, OLD.{column}, NEW.{column}"),
    ("made", "INSERT", "NEW.id, 'nothing', NEW.{column}"),
    ("gone", "DELETE", "OLD.id, OLD.{column}, 'gone'"),
)
_SQLITE = "CREATE TRIGGER {name} AFTER {event} ON {table} {when} BEGIN {note}; END"
_POSTGRESQL = (
    "CREATE FUNCTION {schema}.{name}() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN {note}; RETURN NULL; END $$; "
    "CREATE TRIGGER {name} AFTER {event} ON {schema}.{table} FOR EACH ROW {when} "
    "EXECUTE FUNCTION {schema}.{name}()"
)
_CLOCKS = {
    _SQLITE: "(julianday('now') - 2440587.5) * 86400.0",
    _POSTGRESQL: "extract(epoch FROM clock_timestamp())",
}
_SERVICES = ("compute", "image", "share", "volume")
_BY_POOLS = {"restoring-backup", "downloading", "uploading", "backing-up"}
"""Statuses in which a pool writes or reads what a volume has, so that no guest may write to it."""

# facts/block_storage.md 1.1 and 1.10. An administrator's reset may lead from any status to error.
_VOLUME = {
    "nothing": {"creating"},
    "creating": {"downloading", "restoring-backup", "available", "error", "deleting"},
    "downloading": {"available", "reserved", "error", "deleting"},
    "available": {
        *("reserved", "attaching", "maintenance", "retyping", "deleting", "error"),
        *("backing-up", "restoring-backup", "uploading"),
    },
    "backing-up": {"available", "deleting", "error"},
    "uploading": {"available", "deleting", "error"},
    "restoring-backup": {"available", "error_restoring", "deleting", "error"},
    "error_restoring": {"deleting", "error"},
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
# facts/block_storage.md 1.8.
_BACKUP = {
    "nothing": {"creating"},
    "creating": {"available", "error", "deleting"},
    "available": {"restoring", "deleting"},
    "restoring": {"available", "error", "deleting"},
    "deleting": {"gone", "error_deleting"},
    "error_deleting": {"deleting"},
    "error": {"deleting"},
}
# The same. A deletion that did nothing gives the snapshot back.
_SNAPSHOT = {
    "nothing": {"creating"},
    "creating": {"available", "error", "deleting"},
    "available": {"backing-up", "deleting", "error_deleting"},
    "backing-up": {"available", "deleting", "error_deleting"},
    "deleting": {"gone", "available", "error", "error_deleting"},
    "error_deleting": {"deleting"},
    "error": {"deleting"},
}
# facts/identity_image_placement.md 8.2. One whose data did not come whole is queued again, or goes.
_IMAGE = {
    "nothing": {"queued"},
    "queued": {"saving", "gone"},
    "saving": {"active", "queued", "gone"},
    "active": {"gone"},
}
_MACHINES = {
    "volumes": _VOLUME,
    "backups": _BACKUP,
    "snapshots": _SNAPSHOT,
    "images": _IMAGE,
    "servers": _SERVER,
    "shares": _SHARE,
}


def watch(settings: Settings) -> None:
    """Let the databases of a cloud note what happens from now on."""
    way = _POSTGRESQL if settings.database else _SQLITE
    for service in _SERVICES:
        _run(settings, service, _LOG.format(log=_log(settings, service)))
    for table, (service, column, when) in _WATCHED.items():
        for moment, event, values in _MOMENTS:
            row = values.partition(".")[0]
            told = {"log": _log(settings, service), "values": values, "now": _CLOCKS[way]}
            note = _NOTE.format(table=table, **told).format(column=column)
            names = {"name": f"law_{table}_{moment}", "schema": service, "table": table}
            how = {"event": event.format(column=column), "when": when.format(row=row)}
            _run(settings, service, way.format(note=note, **names, **how))


def find_forbidden(settings: Settings) -> list[str]:
    """Return the changes of a status that no edge allows, and what returned after its end."""
    return [
        f"{kind} {identity} went from {was} to {became}"
        for kind, identity, was, became, _ in _read(settings)
        if became != was and became not in _MACHINES[kind].get(was, set())
    ]


def find_copied(settings: Settings) -> list[Written]:
    """Return when pools were at work on which volume's data."""
    found: list[Written] = []
    begun: dict[str, tuple[str, float]] = {}
    for kind, identity, was, became, at in _read(settings):
        if kind != "volumes" or was == became:
            continue
        if identity in begun:
            what, since = begun.pop(identity)
            found.append(Written(identity, what, shared=False, since=since, until=at))
        if became in _BY_POOLS:
            begun[identity] = (f"its pool, {became}", at + _FINE)
    left = begun.items()
    return found + [Written(one, what, False, since, None) for one, (what, since) in left]


def _log(settings: Settings, service: str) -> str:
    return f"{service}.law_log" if settings.database else "law_log"


def _read(settings: Settings) -> list[tuple[str, str, str, str, float]]:
    """Return what was noted, by services, each as it happened."""
    query = "SELECT kind, id, was, became, at FROM {} ORDER BY at"
    return [
        row
        for service in _SERVICES
        for row in _run(settings, service, query.format(_log(settings, service)))
    ]


def _run(settings: Settings, service: str, command: str) -> list[Any]:
    """Give a command to a service's database, beside its store; return the rows that come."""
    if settings.database:
        with psycopg.connect(settings.database) as shared:
            done = shared.execute(command.encode())
            return done.fetchall() if done.description else []
    file = sqlite3.connect(settings.state_path / f"{service}.sqlite")
    try:
        with file:
            return file.execute(command).fetchall()
    finally:
        file.close()


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
    for _, of_one in itertools.groupby(spans, key=lambda span: span.volume_id):
        for one, other in itertools.combinations(of_one, 2):
            ended = one.until is not None and one.until <= other.since
            may = one.writer == other.writer or (one.shared and other.shared)
            if not ended and not may:
                both = f"{one.writer} and {other.writer}"
                found.append(f"{both} could both write to {one.volume_id}")
    return found
