"""Who delivers to a target, where several processes share a database.

On SQLite there is one process. On PostgreSQL it is whoever has the target's lease, by the
database's clock; a process that dies is succeeded when its lease has run out.
"""

from __future__ import annotations

from datetime import datetime
from typing import cast

from sqlalchemy import ColumnElement, DateTime, Table, delete, func, or_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from mooring.limits import NOTIFY_LEASE_S
from mooring.notify.tables import DelivererRow
from mooring.store.base import Store

_deliverers = cast("Table", DelivererRow.__table__)


def is_shared(store: Store) -> bool:
    """Whether several processes may deliver from this store."""
    return store.kind == "postgresql"


def take(tx: Session, target: str, owner: str) -> bool:
    """Take or prolong the lease on a target; False while another process has it."""
    made = insert(_deliverers).values(target=target, owner=owner, lease_until=_lease_end())
    free = or_(_deliverers.c.owner == owner, _deliverers.c.lease_until < _database_time())
    taken = made.on_conflict_do_update(
        index_elements=[_deliverers.c.target],
        set_={"owner": owner, "lease_until": _lease_end()},
        where=free,
    )
    return tx.execute(taken.returning(_deliverers.c.owner)).first() is not None


def give_back(tx: Session, target: str, owner: str) -> None:
    """Let the next process deliver at once."""
    mine = delete(_deliverers).where(_deliverers.c.target == target, _deliverers.c.owner == owner)
    tx.execute(mine)


def _lease_end() -> ColumnElement[datetime]:
    return _database_time() + func.make_interval(0, 0, 0, 0, 0, 0, NOTIFY_LEASE_S)


def _database_time() -> ColumnElement[datetime]:
    return func.clock_timestamp(type_=DateTime(timezone=True))
