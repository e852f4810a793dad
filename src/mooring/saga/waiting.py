"""Which host an unfinished saga waits for, as operators and users are told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, cast

from sqlalchemy import Table, select
from sqlalchemy.orm import Session

from mooring.bulkhead import Hindrance
from mooring.clock import Clock
from mooring.limits import HOST_WORD_S
from mooring.saga.slots import read_hindrance
from mooring.saga.tables import SagaRow

_sagas = cast("Table", SagaRow.__table__)


class _Schedule(Protocol):
    def hindrance(self, saga_id: str) -> Hindrance | None: ...


class Engine(Protocol):
    """The engine, as far as it knows who waits for whom."""

    clock: Clock

    @property
    def schedule(self) -> _Schedule:
        """What runs in this process."""
        ...


def hindrance_of(engine: Engine, saga_id: str, waits_for: str) -> Hindrance | None:
    """Return what keeps a saga waiting: the host that it asks just now, or did not come to ask.

    A host counts once it has owed an answer for `HOST_WORD_S`.
    """
    asked = engine.schedule.hindrance(saga_id)
    if asked is None:
        return read_hindrance(waits_for)
    is_late = asked.since and engine.clock.now() - asked.since >= timedelta(seconds=HOST_WORD_S)
    return asked if is_late else None


def find_hindrances(tx: Session, engine: Engine, saga_ids: Sequence[str]) -> dict[str, Hindrance]:
    """Return what keeps these sagas waiting, by their ids; nothing for those that go on."""
    query = select(_sagas.c.id, _sagas.c.waits_for).where(
        _sagas.c.id.in_(saga_ids), _sagas.c.state != "ended"
    )
    found = {
        saga_id: hindrance_of(engine, saga_id, waits_for)
        for saga_id, waits_for in tx.execute(query)
    }
    return {saga_id: hindrance for saga_id, hindrance in found.items() if hindrance}
