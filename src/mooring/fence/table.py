"""The fence of a service: its marks are rows, written in the transaction of the change itself.

    def create(tx):
        if (earlier := table.admit(tx, operation, "volumes", verb="POST")) is not None:
            return earlier
        ...
        table.record(tx, operation, "volumes", answer, made=[volume.id], verb="POST")

Without an operation (an ordinary user's request) there is nothing to fence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

from msgspec.structs import replace
from sqlalchemy import (
    Index,
    String,
    Table,
    TextualSelect,
    bindparam,
    column,
    select,
    text,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from mooring.fence import rules
from mooring.fence.marks import RETURNED, Marks, statements
from mooring.fence.operation import Operation
from mooring.fence.rules import Answer, Gone, Outdated, Verb
from mooring.store.base import Json, service_base
from mooring.store.prepared import Prepared

__all__ = ["Answer", "Base", "Gone", "Outdated", "add_made", "admit", "bury", "record"]

Base: type[DeclarativeBase] = service_base("fence")


class EpochRow(Base):
    """The highest epoch in which each saga has called."""

    __tablename__ = "fence_epochs"
    __table_args__ = (Index("ix_fence_epochs_at", "at"),)

    saga: Mapped[str] = mapped_column(String(64), primary_key=True)
    mark: Mapped[int]
    at: Mapped[datetime]


class GenerationRow(Base):
    """The highest generation under which each resource was touched."""

    __tablename__ = "fence_generations"
    __table_args__ = (Index("ix_fence_generations_at", "at"),)

    resource: Mapped[str] = mapped_column(String(255), primary_key=True)
    mark: Mapped[int]
    at: Mapped[datetime]


class TombstoneRow(Base):
    """An operation that was undone; the empty resource stands for all of them."""

    __tablename__ = "fence_tombstones"
    __table_args__ = (Index("ix_fence_tombstones_at", "at"),)

    key: Mapped[str] = mapped_column(String(193), primary_key=True)
    resource: Mapped[str] = mapped_column(String(255), primary_key=True)
    at: Mapped[datetime]


class AnswerRow(Base):
    """What an operation was answered, and the ids of what it made."""

    __tablename__ = "fence_answers"
    __table_args__ = (Index("ix_fence_answers_at", "at"),)

    key: Mapped[str] = mapped_column(String(193), primary_key=True)
    resource: Mapped[str] = mapped_column(String(255), primary_key=True)
    verb: Mapped[str] = mapped_column(String(8), primary_key=True)
    answer: Mapped[Any] = mapped_column(Json)
    made: Mapped[list[str]] = mapped_column(Json)
    at: Mapped[datetime]


_TABLES = {
    "epochs": cast("Table", EpochRow.__table__),
    "generations": cast("Table", GenerationRow.__table__),
    "tombstones": cast("Table", TombstoneRow.__table__),
    "answers": cast("Table", AnswerRow.__table__),
}
_KEPT = "answer", "made"


def _prepare() -> dict[str, Prepared[Any]]:
    types = {one.name: one.type for table in _TABLES.values() for one in table.c}
    texts = statements({name: table.name for name, table in _TABLES.items()}, _KEPT)

    def typed(name: str) -> TextualSelect:
        whole = texts[name]
        given = [bindparam(one, type_=kind) for one, kind in types.items() if f":{one}" in whole]
        returned = [column(one, types[one]) for one in RETURNED.get(name, _KEPT)]
        return text(whole).bindparams(*given).columns(*returned)

    return {name: Prepared(typed(name)) for name in texts}


_STATEMENTS = _prepare()


class TableRecords(Marks):
    """The marks in one transaction. Raising one locks its row until the end of the transaction."""

    def __init__(self, tx: Session, now: datetime) -> None:
        self._tx, self._now = tx, now

    def _ask(self, statement: str, given: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        return _STATEMENTS[statement].all(self._tx, **given)

    def _time(self) -> datetime:
        return self._now

    def _pack(self, answer: Answer) -> dict[str, Any]:
        body = {
            "status": answer.status,
            "body": answer.body,
            "secret": answer.secret,
            "digest": answer.digest,
        }
        return {"answer": body, "made": list(answer.made)}

    def _unpack(self, *columns: Any) -> Answer | None:
        body, made = columns
        return Answer(**body, made=tuple(made))

    def made(self, key: str) -> list[str]:
        """Return the ids of what the operation made, oldest answer first."""
        query = select(AnswerRow.made).where(AnswerRow.key == key).order_by(AnswerRow.at)
        return [made for ids in self._tx.scalars(query) for made in ids]


def admit(
    tx: Session,
    operation: Operation | None,
    resource: str,
    *,
    verb: Verb = "PUT",
    shared: bool = False,
    now: datetime | None = None,
) -> Answer | None:
    """Let a call act (None), or return the answer that the same call got before.

    Raises Gone (410) and Outdated (412), as `rules.admit`. Two calls of one saga meet here one
    after the other, so the second finds the first one's answer.
    """
    if operation is None:
        return None
    records = TableRecords(tx, now or datetime.now(UTC))
    return rules.admit(records, operation, resource, verb, shared=shared)


def record(
    tx: Session,
    operation: Operation | None,
    resource: str,
    answer: Answer,
    made: Sequence[str] = (),
    *,
    verb: Verb = "PUT",
    now: datetime | None = None,
) -> None:
    """Keep the answer of an admitted call, and the ids of what it made, in the same transaction."""
    if operation is None:
        return
    records = TableRecords(tx, now or datetime.now(UTC))
    kept = replace(answer, made=tuple(made)) if made else answer
    rules.finish(records, operation, resource, verb, kept)


def add_made(
    tx: Session,
    operation_key: str,
    resource: str,
    made: Sequence[str],
    *,
    now: datetime | None = None,
) -> bool:
    """Add to what an operation made; return False, and add nothing, when it was buried.

    `resource`: what nothing was kept under for this operation yet.
    """
    records = TableRecords(tx, now or datetime.now(UTC))
    records.raise_epoch(operation_key.partition(".")[0], 0)
    if records.is_buried(operation_key, resource):
        return False
    records.keep(operation_key, resource, "POST", Answer(made=tuple(made)))
    return True


def bury(
    tx: Session, operation_key: str, resource: str = "", *, now: datetime | None = None
) -> list[str]:
    """Leave a tombstone for the operation; return the ids of what it made, none if it never came.

    A call of the same saga that is under way in another transaction is waited for.
    """
    records = TableRecords(tx, now or datetime.now(UTC))
    records.raise_epoch(operation_key.partition(".")[0], 0)
    records.bury(operation_key, resource)
    return records.made(operation_key)
