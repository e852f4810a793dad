"""The journal's tables. They live in the database of the service whose rows the sagas change."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, String, false, text
from sqlalchemy.orm import Mapped, mapped_column

from mooring.store.base import Json, UtcTime, service_base

Base = service_base("saga")


class SagaRow(Base):
    """One saga: its bookmark, its notes, and who advances it.

    state    ready (to be advanced), locked (waits for its locks), parked (waits for a signal or a
             time), ended
    heading  forward, back (unwinding), failing (on its way to the declared bad end), leaving (on
             its way to the end of an undo that was refused), owing (absorbed, and paying what it
             owes to other services)
    outcome  done, undone, failed or absorbed, once ended
    step     the step, and in an Each the item, that is to be run next in this heading
    wake_at  when it is to be looked at again; one that is locked gives up then, and one without
             has absorbed another saga, whose work is its own now, and waits without end
    begun    whether its first step was done
    generations  those of its locks, [key, number] each, once it was absorbed and let go of them
    abort    0 no, 1 asked for by somebody, 2 pre-empted by a saga that may also absorb it,
             3 insisted on by an operator: what fails and may be forgone is
    """

    __tablename__ = "saga_sagas"
    __table_args__ = (
        Index("ix_saga_sagas_state", "state", "lease_until"),
        Index("ix_saga_sagas_waits_for", "waits_for"),
        Index("ix_saga_sagas_ended_at", "ended_at"),
        Index("ix_saga_sagas_parent_id", "parent_id"),
    )

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    name: Mapped[str] = mapped_column(String(64))
    version: Mapped[int]
    state: Mapped[str] = mapped_column(String(8))
    heading: Mapped[str] = mapped_column(String(8))
    outcome: Mapped[str] = mapped_column(String(8), default="")
    step: Mapped[str] = mapped_column(String(64))
    item: Mapped[str] = mapped_column(String(64), default="")
    notes: Mapped[Any] = mapped_column(Json)
    error: Mapped[Any] = mapped_column(Json, nullable=True)
    undo_error: Mapped[Any] = mapped_column(Json, nullable=True)
    generations: Mapped[Any] = mapped_column(Json, nullable=True)
    epoch: Mapped[int] = mapped_column(default=1)
    owner: Mapped[str] = mapped_column(String(64))
    lease_until: Mapped[datetime] = mapped_column(UtcTime)
    wake_at: Mapped[datetime | None] = mapped_column(UtcTime)
    waits_for: Mapped[str] = mapped_column(String(200), default="")
    parked_since: Mapped[datetime | None] = mapped_column(UtcTime)
    attempts: Mapped[int] = mapped_column(default=0)
    spent_s: Mapped[float] = mapped_column(default=0.0)
    stuck: Mapped[bool] = mapped_column(default=False)
    abort: Mapped[int] = mapped_column(default=0)
    round: Mapped[int] = mapped_column(default=1, server_default=text("1"))
    begun: Mapped[bool] = mapped_column(default=False, server_default=false())
    answered: Mapped[bool] = mapped_column(default=False)
    visible: Mapped[bool] = mapped_column(default=False)
    progress: Mapped[int] = mapped_column(default=0)
    sealed_who: Mapped[bytes | None]
    project_id: Mapped[str] = mapped_column(String(64), default="")
    request_id: Mapped[str] = mapped_column(String(64), default="")
    parent_id: Mapped[str] = mapped_column(String(36), default="")
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime] = mapped_column(UtcTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcTime)


class EngineRow(Base):
    """A process of the control plane that advances sagas, where several may; `beat_at`: said when.

    It says so whenever it renews its leases, by the database's clock.
    """

    __tablename__ = "saga_engines"

    owner: Mapped[str] = mapped_column(String(64), primary_key=True)
    beat_at: Mapped[datetime] = mapped_column(UtcTime)


class LockRow(Base):
    """A key that a saga holds or waits for.

    `seq` orders the queue, `generation` fences old holders.
    """

    __tablename__ = "saga_locks"
    __table_args__ = (Index("ix_saga_locks_key", "key"),)

    saga_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    key: Mapped[str] = mapped_column(String(128), primary_key=True)
    shared: Mapped[bool]
    held: Mapped[bool]
    generation: Mapped[int] = mapped_column(default=0)
    seq: Mapped[int]


class CounterRow(Base):
    """Numbers that only grow, and are at each start of a process at least its Unix time."""

    __tablename__ = "saga_counters"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    value: Mapped[int]


class SignalRow(Base):
    """A signal that nobody was waiting for yet."""

    __tablename__ = "saga_signals"
    __table_args__ = (Index("ix_saga_signals_name", "name"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(String(200))
    payload: Mapped[Any] = mapped_column(Json, nullable=True)
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class HistoryRow(Base):
    """One attempt at one step, for the operation's timeline."""

    __tablename__ = "saga_history"
    __table_args__ = (Index("ix_saga_history_saga_id", "saga_id", "id"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    saga_id: Mapped[str] = mapped_column(String(36))
    step: Mapped[str] = mapped_column(String(64))
    item: Mapped[str] = mapped_column(String(64), default="")
    heading: Mapped[str] = mapped_column(String(8))
    attempt: Mapped[int]
    result: Mapped[str] = mapped_column(String(8))
    error: Mapped[Any] = mapped_column(Json, nullable=True)
    epoch: Mapped[int]
    started_at: Mapped[datetime] = mapped_column(UtcTime)
    duration_ms: Mapped[int]
