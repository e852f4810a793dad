"""How often a service has forgotten a host: who learned of one before that makes no row of it.

A process that was stopped between a host's answer and what it writes of it may wake after the host
was taken out of the cloud. What it may always do is change a row that there is.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mooring.fence.table import GenerationRow
from mooring.store.turns import take_turn

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_RESOURCE = "hosts/forgotten"


def count(tx: Session) -> int:
    """Return how often a host was forgotten."""
    row = tx.get(GenerationRow, _RESOURCE)
    return row.mark if row else 0


def begin(tx: Session) -> None:
    """Forget a host in this transaction, behind whoever makes a row of one.

    It comes before what is looked for: such a row is not seen before its transaction has ended.
    """
    take_turn(tx, _RESOURCE)
    row = tx.get(GenerationRow, _RESOURCE)
    if row is None:
        row = GenerationRow(resource=_RESOURCE, mark=0)
        tx.add(row)
    row.mark, row.at = row.mark + 1, datetime.now(UTC)


def may_make(tx: Session, seen: int) -> bool:
    """Whether none was forgotten since the count was `seen`; nor is one before this has ended."""
    take_turn(tx, _RESOURCE)
    return count(tx) == seen
