"""What a dead host still owes: undos answered in its name, to be paid before it is up again.

Once a host is forced down or fenced, nobody waits for it: its client answers every undo at once
and notes a debt instead. Debts are paid, and foreign guests destroyed, before the host may serve.
"""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct
from sqlalchemy import Index, String, UniqueConstraint, delete, select, text, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from mooring.fence.operation import Operation, parse
from mooring.fence.table import Base
from mooring.store.numbers import NEVER_AGAIN

__all__ = ["Base", "Debt", "hosts_in_debt", "note_failure", "owe", "owed", "pay"]


class DebtRow(Base):
    """One verb that a host has still to run."""

    __tablename__ = "fence_debts"
    __table_args__ = (
        UniqueConstraint("host", "verb", "resource"),
        Index("ix_fence_debts_host", "host", "id"),
        NEVER_AGAIN,
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    host: Mapped[str] = mapped_column(String(255))
    verb: Mapped[str] = mapped_column(String(8))
    resource: Mapped[str] = mapped_column(String(255))
    operation: Mapped[str] = mapped_column(String(255))
    generation: Mapped[int]
    created_at: Mapped[datetime]
    error: Mapped[str] = mapped_column(default="", server_default=text("''"))
    """Why the host could not pay it when it was asked last; "" for one it was not asked for."""


class Debt(Struct, frozen=True):
    """One debt: `verb` on `resource` (the agent's path) is to be run under `operation`."""

    id: int
    host: str
    verb: str
    resource: str
    operation: Operation
    created_at: datetime
    error: str = ""
    """Why the host could not pay it when it was asked last."""


def owe(
    tx: Session,
    host: str,
    verb: str,
    resource: str,
    operation: Operation,
    *,
    now: datetime | None = None,
) -> None:
    """Note that a host has still to run a verb. Noted twice, the higher generation stands."""
    same = (DebtRow.host == host, DebtRow.verb == verb, DebtRow.resource == resource)
    row = tx.scalars(select(DebtRow).where(*same).with_for_update()).one_or_none()
    if row is None:
        row = DebtRow(
            host=host,
            verb=verb,
            resource=resource,
            operation=str(operation),
            generation=operation.generation,
            created_at=now or datetime.now(UTC),
        )
        tx.add(row)
    elif row.generation <= operation.generation:
        row.operation, row.generation = str(operation), operation.generation


def owed(tx: Session, host: str) -> list[Debt]:
    """Return what a host owes, oldest first."""
    rows = tx.scalars(select(DebtRow).where(DebtRow.host == host).order_by(DebtRow.id))
    return [
        Debt(row.id, row.host, row.verb, row.resource, _operation(row), row.created_at, row.error)
        for row in rows
    ]


def note_failure(tx: Session, debt: Debt, error: str) -> None:
    """Note why a host could not pay a debt."""
    this = update(DebtRow).where(DebtRow.id == debt.id)
    tx.execute(this.values(error=error))


def hosts_in_debt(tx: Session) -> list[str]:
    """Return the names of the hosts that owe anything."""
    return list(tx.scalars(select(DebtRow.host).distinct().order_by(DebtRow.host)))


def strike(tx: Session, host: str) -> int:
    """Strike all that a host owes, whose machine never runs again; return how much it was."""
    return tx.connection().execute(delete(DebtRow).where(DebtRow.host == host)).rowcount


def pay(tx: Session, debt: Debt) -> bool:
    """Strike a debt that the host has paid; False when a newer one has taken its place."""
    gone = tx.connection().execute(
        delete(DebtRow).where(DebtRow.id == debt.id, DebtRow.operation == str(debt.operation))
    )
    return gone.rowcount == 1


def _operation(row: DebtRow) -> Operation:
    operation = parse(row.operation)
    if operation is None:
        raise ValueError(f"debt {row.id} names no operation")
    return operation
