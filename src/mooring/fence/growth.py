"""What keeps the fence's tables small."""

from __future__ import annotations

from typing import Any

from sqlalchemy.orm import DeclarativeBase

from mooring.fence.debts import DebtRow
from mooring.fence.limits import FENCE_LEAST_S, FENCE_ROWS
from mooring.fence.table import AnswerRow, EpochRow, GenerationRow, TombstoneRow
from mooring.limits import FENCE_KEEP_S
from mooring.store.growth import Aged, Bound

MARKS = "`FENCE_KEEP_S` after their last use; beyond `FENCE_ROWS` after `FENCE_LEAST_S`"


def bounds(most: int) -> tuple[Bound[Any], ...]:
    """Return the bounds of a fence that keeps at most so many marks of a kind, and a day's."""

    def marks(row: type[DeclarativeBase]) -> Bound[Any]:
        rule = Aged[Any](row, "at", FENCE_KEEP_S, most=most, least_s=FENCE_LEAST_S)
        return Bound(row, MARKS, rule)

    return (
        *(marks(row) for row in (EpochRow, GenerationRow, TombstoneRow, AnswerRow)),
        Bound(DebtRow, "one for each thing that a dead host has; paid, or forgotten with it"),
    )


BOUNDS = bounds(FENCE_ROWS)
