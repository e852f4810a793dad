"""The record of a host's fencing: the one that goes on, or the last one."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from mooring.compute.hosts.fence_views import FAILED, FENCED, GOES_ON
from mooring.compute.tables import HostFencing

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.tables import Host


def find(tx: Session, host: str) -> HostFencing | None:
    """Return the record of a host's fencing; None when it was never fenced."""
    # No user's: it is shown to administrators alone.
    return tx.get(HostFencing, host)


def lasts(tx: Session, host: str) -> bool:
    """Whether a host is being fenced."""
    row = find(tx, host)
    return row is not None and row.status == GOES_ON


def begin(tx: Session, host: Host, user_id: str, silent_s: int, now: datetime) -> None:
    """Record that a host is being fenced; failures of the same silence go on being counted."""
    row = find(tx, host.name)
    if row is None:
        row = HostFencing(host=host.name, failures=0)
        tx.add(row)
    elif host.last_seen_at > row.started_at:
        row.failures = 0
    row.status, row.user_id, row.silent_s, row.error = GOES_ON, user_id, silent_s, ""
    row.started_at, row.ended_at = now, None
    tx.flush()


def succeed(tx: Session, host: str, now: datetime) -> None:
    """Record that a host was fenced."""
    row = find(tx, host)
    if row is not None:
        row.status, row.failures, row.ended_at = FENCED, 0, now


def fail(tx: Session, host: str, error: str, now: datetime) -> None:
    """Record that a host was not fenced, and why; nothing where nobody had begun to."""
    row = find(tx, host)
    if row is not None and row.status == GOES_ON:
        row.status, row.error, row.ended_at = FAILED, error, now
        row.failures += 1
