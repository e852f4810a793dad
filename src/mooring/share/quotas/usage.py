"""What projects take of their quotas, summed up from the rows themselves."""

from __future__ import annotations

from collections import Counter
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, func, select, true
from sqlalchemy.orm import Session

from mooring.share.tables import ReservationRow, ShareRow, SnapshotRow, total


class Scope(Struct, frozen=True):
    """Whose usage: a project's, or within it only that of one user or one share type."""

    project_id: str
    user_id: str = ""
    share_type_id: str = ""


def find_used(tx: Session, scope: Scope) -> Counter[str]:
    """Return what shares and snapshots take, by resource; 0 for what this service does not make.

    What is in error counts until it is gone.
    """
    return _read(tx, scope)[0]


def find_reserved(tx: Session, scope: Scope) -> Counter[str]:
    """Return what operations may take besides, by resource."""
    return _read(tx, scope)[1]


def find_taken(tx: Session, scope: Scope) -> Counter[str]:
    """Return both together."""
    used, reserved = _read(tx, scope)
    return used + reserved


def _read(tx: Session, scope: Scope) -> tuple[Counter[str], Counter[str]]:
    """Read in one statement: what is reserved turns into size when a share has grown.

    Between two statements that would be counted twice or not at all.
    """
    tx.flush()
    shares = _of(scope, ShareRow, select(func.count(), total(ShareRow.size_gib)))
    snapshots = _of_snapshots(scope, select(func.count(), total(SnapshotRow.size_gib)))
    more = _of(scope, ReservationRow, select(total(ReservationRow.delta_gib)))
    one, two, three = (query.subquery() for query in (shares, snapshots, more))
    columns: list[ColumnElement[Any]] = [*one.c, *two.c, *three.c]
    whole: Any = select(*columns).select_from(one.join(two, true()).join(three, true()))
    found: Any = tx.execute(whole).one()
    count, gib, taken, taken_gib, reserved = found
    used = Counter(shares=count, gigabytes=gib, snapshots=taken, snapshot_gigabytes=taken_gib)
    return used, Counter(gigabytes=reserved)


def _of(scope: Scope, table: type[ShareRow | ReservationRow], query: Any) -> Any:
    query = query.where(table.project_id == scope.project_id)
    if scope.user_id:
        query = query.where(table.user_id == scope.user_id)
    if scope.share_type_id:
        query = query.where(table.share_type_id == scope.share_type_id)
    return query


def _of_snapshots(scope: Scope, query: Any) -> Any:
    query = query.where(SnapshotRow.project_id == scope.project_id)
    if scope.user_id:
        query = query.where(SnapshotRow.user_id == scope.user_id)
    if scope.share_type_id:
        query = query.join(ShareRow, ShareRow.id == SnapshotRow.share_id)
        query = query.where(ShareRow.share_type_id == scope.share_type_id)
    return query
