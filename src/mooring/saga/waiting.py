"""What an unfinished saga waits for, and whether it can be aborted, as people are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol, cast

from msgspec import Struct
from sqlalchemy import Table, func, select
from sqlalchemy.orm import Session

from mooring import typed
from mooring.bulkhead import Hindrance
from mooring.clock import Clock
from mooring.errors import Conflict
from mooring.limits import HOST_WORD_S
from mooring.saga.define import REGISTRY, Heading, Saga
from mooring.saga.journal import ABORT_INSISTED
from mooring.saga.plan import Place, Plan
from mooring.saga.slots import read_hindrance
from mooring.saga.tables import HistoryRow, SagaRow

_sagas = cast("Table", SagaRow.__table__)
_history = cast("Table", HistoryRow.__table__)
_ONE_WAY = ("failing", "leaving", "owing")
_READ = (
    *("id", "name", "version", "state", "heading", "step", "item", "notes", "abort", "attempts"),
    "waits_for",
)
"""The columns of a saga that tell what it waits for."""


class _Schedule(Protocol):
    def hindrance(self, saga_id: str) -> Hindrance | None: ...


class Engine(Protocol):
    """The engine, as far as it knows who waits for whom."""

    clock: Clock

    @property
    def schedule(self) -> _Schedule:
        """What runs in this process."""
        ...


class Standing(Struct, frozen=True):
    """Where a saga stands: at which place, and whether there is only forward from here."""

    place: Place | None
    is_late: bool

    @property
    def may_be_forgone(self) -> bool:
        """Whether an operator may have it go on without this place."""
        return self.place is not None and self.place.may_be_forgone


class Wait(Struct, frozen=True):
    """What keeps an unfinished saga waiting, if anything does."""

    hindrance: Hindrance | None
    """The host that it asks just now, or did not come to ask."""
    error: str
    """What its last attempt at this step came to, as the public message; empty for a first one."""
    may_abort: bool
    """Whether an operator's abort would be taken, and change something."""

    def describe(self, now: datetime, name: str = "") -> str:
        """Return what it waits for in sentences, empty for nothing; `name` as the host's own."""
        if self.hindrance is not None:
            return f"{self.hindrance.describe(now, name)}."
        return f"{self.error} It is tried again." if self.error else ""


def stand(saga: Saga[Any], notes: Any, heading: Heading, step: str, item: str) -> Standing:
    """Return where a saga of these notes, not decoded yet, stands."""
    plan = Plan(saga, typed.convert(notes, saga.notes))
    place = plan.find(heading, step, item)
    is_behind = heading == "forward" and place is not None and plan.is_behind_pivot(place)
    return Standing(place, heading in _ONE_WAY or is_behind)


def was_tried(attempts: int, waits_for: str) -> bool:
    """Whether a saga has tried its present step: before that nothing of it can be forgone."""
    return attempts > 0 or read_hindrance(waits_for) is not None


def no_way_back(saga_id: str, waits_for: str) -> Conflict:
    """Return what tells that an operation cannot be aborted, and what helps whoever waits for it.

    `waits_for` is the bookmark's: it may have the host; empty for who is not to know that.
    """
    hindrance = read_hindrance(waits_for)
    host = hindrance.host if hindrance else "HOST"
    return Conflict(
        f"Operation {saga_id} is past the point of return; it will be finished. What it waits for: "
        f"mooring operations show {saga_id}. A host that is gone for good: switch it off and force "
        f"it down (openstack compute service set --down {host} nova-compute)."
    )


def find_waits(tx: Session, engine: Engine, saga_ids: Sequence[str]) -> dict[str, Wait]:
    """Return what keeps these sagas waiting, by their ids; nothing for those that have ended."""
    query = select(*(_sagas.c[name] for name in _READ)).where(
        _sagas.c.id.in_(saga_ids), _sagas.c.state != "ended"
    )
    rows = [dict(row) for row in tx.execute(query).mappings()]
    errors = _last_errors(tx, [row["id"] for row in rows if row["attempts"]])
    return {
        row["id"]: Wait(
            _find_hindrance(engine, row["id"], row["waits_for"]),
            errors.get((row["id"], row["step"], row["item"], row["heading"]), ""),
            _may_abort(row),
        )
        for row in rows
    }


def _find_hindrance(engine: Engine, saga_id: str, waits_for: str) -> Hindrance | None:
    """Return the host that keeps a saga waiting, once it has owed an answer for `HOST_WORD_S`."""
    asked = engine.schedule.hindrance(saga_id)
    if asked is None:
        return read_hindrance(waits_for)
    is_late = asked.since and engine.clock.now() - asked.since >= timedelta(seconds=HOST_WORD_S)
    return asked if is_late else None


def _last_errors(tx: Session, saga_ids: Sequence[str]) -> dict[tuple[str, str, str, str], str]:
    """Return the public messages of what failed last, by saga, step, item and heading."""
    of_saga = _history.c.saga_id.in_(saga_ids), _history.c.result == "failed"
    last = select(func.max(_history.c.id)).where(*of_saga).group_by(_history.c.saga_id)
    rows = tx.execute(select(_history).where(_history.c.id.in_(last))).mappings()
    return {
        (row["saga_id"], row["step"], row["item"], row["heading"]): str(row["error"]["public"])
        for row in rows
        if row["error"]
    }


def _may_abort(row: Mapping[str, Any]) -> bool:
    saga = REGISTRY.get((row["name"], row["version"]))
    if saga is None:
        return False
    at = stand(saga, row["notes"], row["heading"], row["step"], row["item"])
    if not at.is_late:
        # One that unwinds does already what an abort would have it do.
        return row["heading"] == "forward" and not row["abort"]
    is_insisted = row["abort"] >= ABORT_INSISTED
    return at.may_be_forgone and was_tried(row["attempts"], row["waits_for"]) and not is_insisted
