"""Who advances sagas: the processes of the control plane, as operators see them.

On SQLite there is one process, which holds the lock of the state directory while it answers. On
PostgreSQL each says that it lives whenever it renews its leases, by the database's clock; one that
has stopped, or hangs, is silent.
"""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from sqlalchemy import DateTime, Table, func, insert, select, update

from mooring.saga.tables import EngineRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.saga.engine import Engine

SHOWN_DOWN_S = 15.0
"""A process that was silent for so long is shown as down: ten times what it takes to renew."""
KEEP_S = 86400.0
"""For how long one that is silent is shown at all, where nothing else lives on its machine."""
_NAMESPACE = uuid.UUID("3f6a3c58-2f0e-5d3c-9b7e-6c0f5a7d9e21")
_engines = cast("Table", EngineRow.__table__)


class Process(Struct, frozen=True, kw_only=True):
    """A process of the control plane, on which machine, and when it last said that it lives."""

    owner: str
    host: str
    seen_at: datetime
    is_up: bool

    def id_of(self, binary: str) -> str:
        """Return the id of one of the services that clients know it as."""
        return str(uuid.uuid5(_NAMESPACE, f"{binary}:{self.owner}"))


def beat(tx: Session, owner: str) -> None:
    """Say that this process lives."""
    now = func.clock_timestamp(type_=DateTime(timezone=True))
    mine = update(_engines).where(_engines.c.owner == owner).values(beat_at=now)
    if tx.execute(mine.returning(_engines.c.owner)).first() is None:
        tx.execute(insert(_engines).values(owner=owner, beat_at=now))


def find(tx: Session, engine: Engine[Any]) -> list[Process]:
    """Return the processes that advance sagas of a service, by machine.

    A silent one is left out where another one lives on its machine: that has taken its place.
    """
    if engine.store.kind == "sqlite":
        return [_process(engine.owner, engine.clock.now(), is_up=True)]
    now = tx.scalar(select(func.clock_timestamp(type_=DateTime(timezone=True))))
    down_before = cast("datetime", now) - timedelta(seconds=SHOWN_DOWN_S)
    rows = tx.execute(select(_engines).order_by(_engines.c.owner))
    found = [_process(row.owner, row.beat_at, is_up=row.beat_at >= down_before) for row in rows]
    lived_on = {one.host for one in found if one.is_up}
    return [one for one in found if one.is_up or one.host not in lived_on]


def _process(owner: str, seen_at: datetime, *, is_up: bool) -> Process:
    return Process(owner=owner, host=owner.partition(":")[0], seen_at=seen_at, is_up=is_up)
