"""Operations, as an operator reads them: what a saga is doing, what it did, and for how long."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from msgspec import Struct
from sqlalchemy import Table, select
from sqlalchemy.orm import Session

from mooring import limits, typed
from mooring.errors import NotFound
from mooring.saga.define import REGISTRY
from mooring.saga.tables import HistoryRow, LockRow, SagaRow
from mooring.saga.waiting import Engine, Wait, find_waits

_sagas = cast("Table", SagaRow.__table__)
_locks = cast("Table", LockRow.__table__)
_history = cast("Table", HistoryRow.__table__)

_COLUMNS = (
    *("id", "name", "version", "state", "heading", "outcome", "step", "item", "error", "progress"),
    "undo_error",
    "notes",
    *("attempts", "stuck", "abort", "wake_at", "waits_for", "project_id", "request_id"),
    *("parent_id", "created_at", "updated_at", "ended_at"),
)

_AT_WORK = {"forward": "running", "leaving": "leaving", "owing": "owing"}


class Attempt(Struct, frozen=True):
    """One attempt at one step. `duration_ms` is in milliseconds; `error` is its public message."""

    step: str
    item: str
    heading: str
    attempt: int
    result: str
    error: str
    started_at: datetime
    duration_ms: int


class Summary(Struct, frozen=True, kw_only=True):
    """One operation. `status` is what an operator looks for first."""

    id: str
    name: str
    status: str
    """running, unwinding, leaving (an undo was refused for good), owing (absorbed, and paying
    what it owes to other services), waiting (for a lock, a signal or a time), stuck, unknown to
    this release, or its outcome: done, undone, failed, absorbed."""
    step: str
    item: str
    progress: int
    attempts: int
    error: str
    undo_error: str
    """Why an undo was refused for good; empty when none was."""
    project_id: str
    request_id: str
    parent_id: str
    locks: tuple[str, ...]
    """What it is about, as `server:ID`: the keys it holds or waits for, or held, once ended."""
    waits: str
    """Which host keeps it waiting, or why its last attempt failed; empty for neither."""
    may_abort: bool = False
    """Whether an abort would be taken, and change something."""
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None


class Operation(Struct, frozen=True):
    """One operation with its timeline."""

    operation: Summary
    timeline: tuple[Attempt, ...]


def list_operations(tx: Session, engine: Engine, *, everything: bool = False) -> list[Summary]:
    """Return operations, newest first: those that have not ended, or `everything` still kept."""
    query = select(*(_sagas.c[name] for name in _COLUMNS)).order_by(_sagas.c.created_at.desc())
    if not everything:
        query = query.where(_sagas.c.state != "ended")
    rows = tx.execute(query.limit(limits.OPERATIONS_LISTED)).mappings().all()
    ids = [row["id"] for row in rows]
    keys, waits, now = _load_locks(tx, ids), find_waits(tx, engine, ids), engine.clock.now()
    return [
        _summarise(dict(row), keys.get(row["id"], ()), waits.get(row["id"]), now) for row in rows
    ]


def show_operation(tx: Session, engine: Engine, saga_id: str) -> Operation:
    """Return one operation with its timeline. Raises NotFound."""
    query = select(*(_sagas.c[name] for name in _COLUMNS)).where(_sagas.c.id == saga_id)
    row = tx.execute(query).mappings().first()
    if row is None:
        raise NotFound(f"Operation {saga_id} is not known; what has ended is kept for 30 days.")
    lines = select(_history).where(_history.c.saga_id == saga_id).order_by(_history.c.id)
    attempts = [_attempt(dict(line)) for line in tx.execute(lines).mappings()]
    keys = _load_locks(tx, [saga_id]).get(saga_id, ())
    wait = find_waits(tx, engine, [saga_id]).get(saga_id)
    return Operation(_summarise(dict(row), keys, wait, engine.clock.now()), tuple(attempts))


def _load_locks(tx: Session, saga_ids: list[str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    query = select(_locks.c.saga_id, _locks.c.key).where(_locks.c.saga_id.in_(saga_ids))
    for saga_id, key in tx.execute(query.order_by(_locks.c.key)):
        found[saga_id] = (*found.get(saga_id, ()), key)
    return found


def _summarise(
    row: dict[str, Any], keys: tuple[str, ...], wait: Wait | None, now: datetime
) -> Summary:
    return Summary(
        id=row["id"],
        name=row["name"],
        status=_status(row),
        step=row["step"],
        item=row["item"],
        progress=100 if row["outcome"] == "done" else row["progress"],
        attempts=row["attempts"],
        error=_public(row["error"]),
        undo_error=_public(row["undo_error"]),
        project_id=row["project_id"],
        request_id=row["request_id"],
        parent_id=row["parent_id"],
        locks=keys or _former_keys(row),
        waits=wait.describe(now) if wait else "",
        may_abort=wait.may_abort if wait else False,
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        ended_at=row["ended_at"],
    )


def _status(row: dict[str, Any]) -> str:
    if row["state"] == "ended":
        return row["outcome"]
    if (row["name"], row["version"]) not in REGISTRY:
        return "unknown"
    if row["stuck"]:
        return "stuck"
    if row["state"] in ("locked", "parked"):
        return "waiting"
    return _AT_WORK.get(row["heading"], "unwinding")


def _former_keys(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the keys that an operation held until it ended; none of another release's."""
    saga = REGISTRY.get((row["name"], row["version"])) if row["state"] == "ended" else None
    if saga is None:
        return ()
    return tuple(sorted(lock.key for lock in saga.locks(typed.convert(row["notes"], saga.notes))))


def _public(error: dict[str, Any] | None) -> str:
    return str(error["public"]) if error else ""


def _attempt(line: dict[str, Any]) -> Attempt:
    return Attempt(
        step=line["step"],
        item=line["item"],
        heading=line["heading"],
        attempt=line["attempt"],
        result=line["result"],
        error=_public(line["error"]),
        started_at=line["started_at"],
        duration_ms=line["duration_ms"],
    )
