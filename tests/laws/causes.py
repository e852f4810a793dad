"""Why operations ended, and why they waited: read from the journals at each turn of the clock.

A law that goes by causes needs no bound of time. None may be ended by a deadline, or because
another one was busy; and none may look again for something that nobody moves any more.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast

from msgspec import Struct
from sqlalchemy import Table, select
from sqlalchemy.orm import Session

from mooring.saga.slots import read_hindrance
from mooring.saga.tables import HistoryRow, SagaRow
from tests.cloud import SimulatedCloud

_sagas = cast("Table", SagaRow.__table__)
_history = cast("Table", HistoryRow.__table__)


class Resting(Struct, frozen=True):
    """An unfinished operation, as it stood when the clock was to be turned."""

    id: str
    name: str
    place: tuple[str, ...]
    state: str
    looked_at: datetime
    waits_for_others: bool
    """It was told to come again, or rests until somebody gives a signal."""

    def __str__(self) -> str:
        return f"{self.name} at {'/'.join(self.place)} ({self.state})"


class Causes:
    """Watches a cloud from now on. `excused` begins the message of a failure that a law made."""

    def __init__(self, cloud: SimulatedCloud, *, excused: str = "A law ") -> None:
        self._cloud, self._excused = cloud, excused
        self._last: dict[str, Resting] = {}
        self._in_vain: dict[str, None] = {}
        cloud.pace.before_turn = self._look

    async def complaints(self) -> list[str]:
        """Return who waited in vain, and who was ended by a deadline or because one was busy."""
        found = [f"{line}, and nobody was at work" for line in self._in_vain]
        for name in self._cloud.cloud.engines:
            rows = await self._cloud.cloud.stores[name].read(_read_errors)
            found += [
                f"{saga} ended: {error['public']}" for saga, error in rows if self._is_late(error)
            ]
        return found

    def _is_late(self, error: dict[str, Any]) -> bool:
        if error["public"].startswith(self._excused):
            return False
        # One that is told to ask again at once, for something else than before, waited for nobody.
        is_told = error["kind"] == "conflict" and error["detail"].get("final")
        busy = bool(error["detail"].get("busy")) and not is_told
        return error["kind"] == "unavailable" or busy

    async def _look(self) -> None:
        """See whether those who wait have all looked again and found nothing new."""
        rows: list[Resting] = []
        for name in self._cloud.cloud.engines:
            rows += await self._cloud.cloud.stores[name].read(_read_unfinished)
        now = {row.id: row for row in rows}
        if not all(row.waits_for_others for row in rows):
            self._last = {}
            return
        places = {row.id: row.place for row in rows}
        if places != {row.id: row.place for row in self._last.values()}:
            self._last = now
        elif rows and all(_has_looked(self._last[row.id], row) for row in rows):
            self._in_vain.update(dict.fromkeys(str(row) for row in rows))


def _has_looked(before: Resting, row: Resting) -> bool:
    return row.state == "locked" or row.looked_at > before.looked_at


def _read_unfinished(tx: Session) -> list[Resting]:
    columns = (_sagas.c.id, _sagas.c.name, _sagas.c.heading, _sagas.c.step, _sagas.c.item)
    more = (_sagas.c.state, _sagas.c.updated_at, _sagas.c.parked_since, _sagas.c.waits_for)
    query = select(*columns, *more).where(_sagas.c.state != "ended")
    found: list[Resting] = []
    for row in tx.execute(query):
        waits = _waits_for_others(tx, row.id, row.state, row.parked_since, row.waits_for)
        place = (row.heading, row.step, row.item)
        found.append(Resting(row.id, row.name, place, row.state, row.updated_at, waits))
    return found


def _waits_for_others(
    tx: Session, saga_id: str, state: str, parked_since: datetime | None, waits_for: str
) -> bool:
    if state == "locked":
        return True
    if state != "parked" or read_hindrance(waits_for) is not None:
        return False
    if parked_since is not None:
        return True
    query = select(_history.c.error).where(_history.c.saga_id == saga_id)
    error = tx.execute(query.order_by(_history.c.id.desc()).limit(1)).scalar()
    return bool(error and error["detail"].get("busy"))


def _read_errors(tx: Session) -> list[tuple[str, dict[str, Any]]]:
    query = select(_sagas.c.name, _sagas.c.error).where(_sagas.c.state == "ended")
    return [(name, error) for name, error in tx.execute(query) if error]
