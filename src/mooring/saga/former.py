"""Bookmarks of the version before, read once as today's: when a process takes them over.

So operations that were in flight when the release changed go on and end, and a release carries a
name or two for each saga that changed, not a copy of its old steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from msgspec import Struct
from sqlalchemy import Table, select, update
from sqlalchemy.orm import Session

from mooring.saga.define import REGISTRY, Each, Former, Heading, Saga
from mooring.saga.tables import SagaRow

_sagas = cast("Table", SagaRow.__table__)


class _Mark(Struct, frozen=True):
    """What is translated of a bookmark."""

    id: str
    name: str
    version: int
    heading: Heading
    step: str
    item: str
    notes: dict[str, Any]


_COLUMNS = tuple(_sagas.c[name] for name in _Mark.__struct_fields__)


def translate(tx: Session, owner: str) -> None:
    """Rewrite this owner's unfinished bookmarks that are of the version before today's."""
    heirs = _find_heirs()
    if not heirs:
        return
    mine = select(*_COLUMNS).where(_sagas.c.owner == owner, _sagas.c.state != "ended")
    for row in tx.execute(mine.where(_sagas.c.name.in_({name for name, _ in heirs}))).all():
        mark = _Mark(*row)
        if heir := heirs.get((mark.name, mark.version)):
            own = update(_sagas).where(_sagas.c.id == mark.id)
            tx.execute(own.values(_read(mark, *heir)))


def _find_heirs() -> Mapping[tuple[str, int], tuple[Saga[Any], Former]]:
    return {
        (saga.name, saga.version - 1): (saga, saga.former)
        for saga in REGISTRY.values()
        if saga.former is not None and (saga.name, saga.version - 1) not in REGISTRY
    }


def _read(mark: _Mark, saga: Saga[Any], former: Former) -> dict[str, Any]:
    values: dict[str, Any] = {"version": saga.version, "notes": former.notes(mark.notes)}
    if mark.heading in {"back", "failing"} and saga.undo_ends and former.leaves(mark.notes):
        first = saga.undo_ends[0]
        return values | {"heading": "leaving", "step": first.name, "item": "", "attempts": 0}
    step = former.steps.get(mark.step, mark.step)
    return values | {"step": step, "item": mark.item if step in _steps_of_items(saga) else ""}


def _steps_of_items(saga: Saga[Any]) -> Sequence[str]:
    return [step.name for part in saga.steps if isinstance(part, Each) for step in part.steps]
