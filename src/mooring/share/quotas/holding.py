"""One project's quota at a time: who counts it holds it until the count was used."""

from __future__ import annotations

from typing import Any, cast

from sqlalchemy import Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.orm import Session

from mooring.share.tables import QuotaProjectRow
from mooring.store.prepared import Prepared

_holders = cast("Table", QuotaProjectRow.__table__)


def hold(tx: Session, project_id: str) -> None:
    """Let nobody else add to this project's usage until the transaction ends."""
    _hold.run(tx, {"project_id": project_id, "takings": 1})


def _holding(dialect: str) -> postgresql.Insert | sqlite.Insert:
    insert = (postgresql if dialect == "postgresql" else sqlite).insert(_holders)
    more = {"takings": _holders.c.takings + insert.excluded.takings}
    return insert.on_conflict_do_update(index_elements=list(_holders.primary_key), set_=more)


_hold = Prepared[Any](build=_holding)
