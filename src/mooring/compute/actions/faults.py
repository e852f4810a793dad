"""Faults: why something went wrong with a server (facts/compute.md 1.7)."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import select

from mooring.compute.tables import Fault

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.errors import MooringError

MESSAGE_LENGTH = 255
_CODES = {
    "invalid": 400,
    "forbidden": 403,
    "over_quota": 403,
    "not_found": 404,
    "conflict": 409,
    "unavailable": 503,
}


def code_of(error: MooringError) -> int:
    """Return the number that a fault shows for this kind of error; 500 where there is no better."""
    return _CODES.get(error.kind, 500)


def record(tx: Session, server_id: str, error: MooringError | None, now: datetime) -> int:
    """Add a fault to a server and return its id. The message is cut at 255 characters."""
    public = error.public if error else "The operation was ended by an operator."
    fault = Fault(
        server_id=server_id,
        code=code_of(error) if error else 500,
        message=public[:MESSAGE_LENGTH],
        details=f"{public}\n{error.private}".strip() if error else "",
        created_at=now,
    )
    tx.add(fault)
    tx.flush()
    return fault.id


def find_newest(tx: Session, server_id: str) -> Fault | None:
    """Return a server's newest fault."""
    query = select(Fault).where(Fault.server_id == server_id).order_by(Fault.id.desc()).limit(1)
    return tx.execute(query).scalar()
