"""What keeps the journal of sagas small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import delete, exists
from sqlalchemy.orm import Session, aliased

from mooring.saga import engines
from mooring.saga.tables import CounterRow, EngineRow, HistoryRow, LockRow, SagaRow, SignalRow
from mooring.store import limits
from mooring.store.growth import Aged, Bound, Newest

_parent = aliased(SagaRow)
_is_awaited = exists().where(_parent.id == SagaRow.parent_id, _parent.state != "ended")


class _Ended(Aged[Any]):
    """Takes away sagas that have ended, each with its timeline; none whose parent still asks."""

    def __init__(self) -> None:
        super().__init__(
            SagaRow,
            "ended_at",
            limits.SAGA_KEEP_S,
            most=limits.SAGA_ROWS,
            least_s=limits.SAGA_LEAST_S,
            only=[~_is_awaited],
        )

    def drop(self, tx: Session, found: Sequence[Any]) -> int:
        tx.execute(delete(HistoryRow).where(HistoryRow.saga_id.in_([key for key, _ in found])))
        return super().drop(tx, found)


BOUNDS: tuple[Bound[Any], ...] = (
    Bound(
        SagaRow,
        "`SAGA_KEEP_S` after they ended; beyond `SAGA_ROWS` after `SAGA_LEAST_S`",
        _Ended(),
    ),
    Bound(
        HistoryRow,
        "with their saga, and of each the newest `SAGA_LINES`",
        Newest(HistoryRow, "saga_id", limits.SAGA_LINES),
    ),
    Bound(LockRow, "with their saga's end"),
    Bound(
        EngineRow,
        "one for each process of the control plane; of one that is silent for a day",
        Aged(EngineRow, "beat_at", engines.KEEP_S, most=1000, least_s=engines.SHOWN_DOWN_S),
    ),
    Bound(CounterRow, "one"),
    Bound(
        SignalRow,
        "`SIGNAL_KEEP_S`; beyond `SIGNAL_ROWS` after `SIGNAL_LEAST_S`",
        Aged(
            SignalRow,
            "created_at",
            limits.SIGNAL_KEEP_S,
            most=limits.SIGNAL_ROWS,
            least_s=limits.SIGNAL_LEAST_S,
        ),
    ),
)
