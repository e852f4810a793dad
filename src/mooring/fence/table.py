"""The fence of a service: its marks are rows, written in the transaction of the change itself.

    def create(tx):
        if (earlier := table.admit(tx, operation, "volumes", verb="POST")) is not None:
            return earlier
        ...
        table.record(tx, operation, "volumes", answer, made=[volume.id], verb="POST")

Without an operation (an ordinary user's request) there is nothing to fence.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, cast

from msgspec.structs import replace
from sqlalchemy import Index, Insert, String, Table, bindparam, case, delete, or_, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

from mooring.fence import rules
from mooring.fence.operation import Operation
from mooring.fence.rules import Answer, Gone, Outdated, Verb
from mooring.store.base import Json, service_base
from mooring.store.prepared import Prepared

__all__ = ["Answer", "Base", "Gone", "Outdated", "admit", "bury", "record", "sweep"]

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


_tombstones = cast("Table", TombstoneRow.__table__)
_answers = cast("Table", AnswerRow.__table__)


def _raising(row: type[EpochRow | GenerationRow]) -> Prepared[int]:
    table = cast("Table", row.__table__)

    def build(dialect: str) -> Insert:
        insert = _insert(table, dialect)
        given = insert.excluded
        higher = case((table.c.mark > given.mark, table.c.mark), else_=given.mark)
        changed = insert.on_conflict_do_update(
            index_elements=list(table.primary_key), set_={"mark": higher, "at": given.at}
        )
        return changed.returning(table.c.mark)

    return Prepared(row=int, build=build)


def _putting(table: Table) -> Prepared[Any]:
    others = [column.name for column in table.c if not column.primary_key]

    def build(dialect: str) -> Insert:
        insert = _insert(table, dialect)
        return insert.on_conflict_do_update(
            index_elements=list(table.primary_key),
            set_={name: insert.excluded[name] for name in others},
        )

    return Prepared(build=build)


def _insert(table: Table, dialect: str) -> postgresql.Insert | sqlite.Insert:
    return (postgresql if dialect == "postgresql" else sqlite).insert(table)


def _answer(body: dict[str, Any], made: list[str]) -> Answer:
    return Answer(**body, made=tuple(made))


_raise_epoch = _raising(EpochRow)
_raise_generation = _raising(GenerationRow)
_bury = _putting(_tombstones)
_keep = _putting(_answers)
_buried = Prepared(
    select(_tombstones.c.key).where(
        _tombstones.c.key == bindparam("of_key"),
        or_(_tombstones.c.resource == bindparam("of_resource"), _tombstones.c.resource == ""),
    ),
    str,
)
_answered = Prepared(
    select(_answers.c.answer, _answers.c.made).where(
        _answers.c.key == bindparam("of_key"),
        _answers.c.resource == bindparam("of_resource"),
        _answers.c.verb == bindparam("of_verb"),
    ),
    _answer,
)


class TableRecords:
    """The marks in one transaction. Raising one locks its row until the end of the transaction."""

    def __init__(self, tx: Session, now: datetime) -> None:
        self._tx, self._now = tx, now

    def raise_epoch(self, saga: str, epoch: int) -> int:
        return _raise_epoch.all(self._tx, saga=saga, mark=epoch, at=self._now)[0]

    def raise_generation(self, resource: str, generation: int) -> int:
        marks = _raise_generation.all(self._tx, resource=resource, mark=generation, at=self._now)
        return marks[0]

    def is_buried(self, key: str, resource: str) -> bool:
        return bool(_buried.all(self._tx, of_key=key, of_resource=resource))

    def bury(self, key: str, resource: str) -> None:
        _bury.run(self._tx, {"key": key, "resource": resource, "at": self._now})

    def answer(self, key: str, resource: str, verb: Verb) -> Answer | None:
        return _answered.first(self._tx, of_key=key, of_resource=resource, of_verb=verb)

    def keep(self, key: str, resource: str, verb: Verb, answer: Answer) -> None:
        values = {
            "answer": {
                "status": answer.status,
                "body": answer.body,
                "secret": answer.secret,
                "digest": answer.digest,
            },
            "made": list(answer.made),
        }
        own = {"key": key, "resource": resource, "verb": verb, "at": self._now}
        _keep.run(self._tx, {**own, **values})

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


def sweep(tx: Session, older_than: datetime) -> int:
    """Forget what nobody has touched since; return how many rows went.

    `older_than` must lie further back than any request can live, or a late call would be let in.
    """
    return sum(
        tx.connection().execute(delete(table).where(table.at < older_than)).rowcount
        for table in (EpochRow, GenerationRow, TombstoneRow, AnswerRow)
    )
