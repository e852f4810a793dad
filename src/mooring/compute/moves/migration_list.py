"""Reading the records of moves: pages of them (facts/compute.md 11.4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from mooring import limits
from mooring.agent_api.moves import percent_of
from mooring.compute.moves.migrations import LIVE, UNDER_WAY
from mooring.compute.tables import Migration
from mooring.compute.wire import keyset
from mooring.compute.wire.keyset import SortKey
from mooring.errors import Invalid

_ORDER = (SortKey(Migration.created_at, descending=True), SortKey(Migration.id, descending=True))


class MigrationQuery(Struct, frozen=True, kw_only=True):
    """Which moves to list; None where it is all the same. `marker` is a uuid, `host` either one.

    `hidden` asks for those that are hidden, which no move ever is.
    """

    server_id: str | None = None
    host: str | None = None
    source: str | None = None
    status: str | None = None
    type: str | None = None
    hidden: bool = False
    user_id: str | None = None
    project_id: str | None = None
    changed_since: datetime | None = None
    changed_before: datetime | None = None
    marker: str | None = None
    limit: int = limits.WEB_PAGE_ROWS


def page(tx: Session, query: MigrationQuery) -> Sequence[Migration]:
    """Return moves, the newest first. Raises Invalid for an unknown marker."""
    if query.hidden:
        return []
    equal = {
        Migration.server_id: query.server_id,
        Migration.source: query.source,
        Migration.status: query.status,
        Migration.type: query.type,
        Migration.user_id: query.user_id,
        Migration.project_id: query.project_id,
    }
    wanted = select(Migration).where(
        *(column == value for column, value in equal.items() if value is not None)
    )
    if query.host is not None:
        wanted = wanted.where(
            or_(Migration.source == query.host, Migration.destination == query.host)
        )
    if query.changed_since is not None:
        wanted = wanted.where(Migration.updated_at >= query.changed_since)
    if query.changed_before is not None:
        wanted = wanted.where(Migration.updated_at <= query.changed_before)
    if query.marker is not None:
        found = select(Migration).where(Migration.uuid == query.marker)
        marker = tx.execute(found).scalar()
        if marker is None:
            raise Invalid(f"Marker {query.marker} could not be found.")
        wanted = wanted.where(keyset.after(_ORDER, (marker.created_at, marker.id)))
    ordered = wanted.order_by(*keyset.order(_ORDER)).limit(query.limit)
    return tx.execute(ordered).scalars().all()


def under_way(tx: Session, server_id: str) -> Sequence[Migration]:
    """Return the live migrations of a server that last, the oldest first."""
    wanted = select(Migration).where(
        Migration.server_id == server_id,
        Migration.type == LIVE,
        Migration.status.in_(UNDER_WAY),
    )
    return tx.execute(wanted.order_by(Migration.id)).scalars().all()


def progress(tx: Session, server_ids: Sequence[str]) -> dict[str, int]:
    """Return how much of each server that is on its way is there, in percent, memory and disks."""
    wanted = select(
        Migration.server_id,
        Migration.memory_total_bytes + Migration.disk_total_bytes,
        Migration.memory_remaining_bytes + Migration.disk_remaining_bytes,
    ).where(Migration.server_id.in_(server_ids), Migration.status.in_(UNDER_WAY))
    return {one: percent_of(total, left) for one, total, left in tx.execute(wanted)}
