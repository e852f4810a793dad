"""Lists: which rows, in what order, and what belongs to them. Rows are Core rows, not objects.

Source: facts/block_storage.md 7.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Literal

from msgspec import Struct
from sqlalchemy import ColumnElement, Row, Select, Text, bindparam, false, func, select, type_coerce
from sqlalchemy.orm import Session

from mooring.errors import NotFound
from mooring.store.pages import Column, has_pair, in_order, of_project, page_of
from mooring.store.prepared import Prepared, named
from mooring.volume.sums import total_gib
from mooring.volume.tables import (
    AttachmentRow,
    BackendRow,
    BackupRow,
    SnapshotRow,
    TypeRow,
    VolumeRow,
)
from mooring.web.paging import Page
from mooring.who import Who

Rows = Sequence[Row[Any]]
Compare = Literal["gt", "gte", "eq", "neq", "lt", "lte"]

_VOLUME_COLUMNS = tuple(VolumeRow.__table__.columns)
_ATTACHMENT_COLUMNS = tuple(AttachmentRow.__table__.columns)

VOLUME_COLUMNS: Mapping[str, Column] = {
    "availability_zone": VolumeRow.zone,
    "bootable": VolumeRow.bootable,
    "created_at": VolumeRow.created_at,
    "description": VolumeRow.description,
    "display_name": VolumeRow.name,
    "host": VolumeRow.backend,
    "id": VolumeRow.id,
    "migration_status": VolumeRow.migration_status,
    "name": VolumeRow.name,
    "project_id": VolumeRow.project_id,
    "size": VolumeRow.size_gib,
    "status": VolumeRow.status,
    "updated_at": VolumeRow.updated_at,
    "user_id": VolumeRow.user_id,
    "volume_type_id": VolumeRow.volume_type_id,
}
"""What volumes are filtered and sorted by."""

ATTACHMENT_COLUMNS: Mapping[str, Column] = {
    "attach_status": AttachmentRow.attach_status,
    "created_at": AttachmentRow.created_at,
    "id": AttachmentRow.id,
    "instance_id": AttachmentRow.server_id,
    "status": AttachmentRow.attach_status,
    "volume_id": AttachmentRow.volume_id,
}
"""What attachments are filtered and sorted by."""


class Moment(Struct, frozen=True):
    """A filter on a time."""

    column: str
    compare: Compare
    time: datetime


class Query(Struct, frozen=True, kw_only=True):
    """Which rows to list. `project_id` None means those of all projects."""

    project_id: str | None
    page: Page
    equal: Mapping[str, Any] = {}
    """By column."""
    like: Mapping[str, str] = {}
    """By column: what its text contains, in any case."""
    moments: Sequence[Moment] = ()
    metadata: Mapping[str, str] = {}
    image_metadata: Mapping[str, str] = {}
    nothing: bool = False
    """Whether the filters exclude each other."""


class Totals(Struct, frozen=True):
    """What several volumes come to."""

    count: int
    size_gib: int
    metadata: dict[str, list[str]]


class Surroundings(Struct, frozen=True):
    """What belongs to the volumes of one page: attached ones by volume, services by backend.

    `protocols`: what a backend's volumes are reached by.
    """

    attached: dict[str, list[Any]]
    services: dict[str, str]
    protocols: dict[str, str]


def volumes(tx: Session, query: Query) -> Rows:
    """Return one page of volumes, each with its `type_name`. Raises NotFound for a bad marker."""
    wanted = _with_type().where(*_of_volumes(tx, query))
    seen = of_project(VolumeRow.project_id, query.project_id)
    return page_of(tx, wanted, VOLUME_COLUMNS, query.page, *seen)


def count_volumes(tx: Session, query: Query) -> int:
    """Return how many volumes the filters find, on all pages."""
    counted = select(func.count()).select_from(VolumeRow).where(*_of_volumes(tx, query))
    return tx.execute(counted).scalar_one()


def sum_volumes(tx: Session, query: Query) -> Totals:
    """Return what all volumes that the filters find come to, with the values of their metadata."""
    where = _of_volumes(tx, query)
    counted = select(func.count(), total_gib()).where(*where)
    count, size_gib = tx.execute(counted).one()
    found: dict[str, list[str]] = {}
    for metadata in tx.execute(select(VolumeRow.labels).where(*where)).scalars():
        for key, value in metadata.items():
            known = found.setdefault(key, [])
            if value not in known:
                known.append(value)
    return Totals(count, size_gib, found)


def volume(tx: Session, who: Who, volume_id: str) -> tuple[Any, Surroundings]:
    """Return a volume that this caller may see, with its `type_name`. Raises NotFound."""
    row = _by_id.first(tx, of_id=volume_id)
    if row is None or not (who.is_admin or row.project_id == who.project_id != ""):
        raise NotFound(f"Volume {volume_id} could not be found.")
    attached = {volume_id: _attached_to.all(tx, of_id=volume_id)}
    return row, _around(tx, attached)


def surroundings(tx: Session, rows: Rows) -> Surroundings:
    """Return what belongs to these volumes, in one query for each kind of thing."""
    attached: dict[str, list[Any]] = {}
    for row in tx.execute(_attached, {"of_ids": [row.id for row in rows]}):
        attached.setdefault(row.volume_id, []).append(row)
    return _around(tx, attached)


def _around(tx: Session, attached: dict[str, list[Any]]) -> Surroundings:
    found = _backends.all(tx)
    services = {name: service_id for name, service_id, _ in found}
    return Surroundings(attached, services, {name: protocol for name, _, protocol in found})


def attachments(tx: Session, query: Query) -> Sequence[Any]:
    """Return one page of attachments. Raises NotFound for a bad marker."""
    page, is_of_project = query.page, query.project_id is not None
    if page.marker or query.nothing:
        seen = of_project(AttachmentRow.project_id, query.project_id)
        wanted = select(*_ATTACHMENT_COLUMNS).where(*equal_to(query, ATTACHMENT_COLUMNS), *seen)
        return page_of(tx, wanted, ATTACHMENT_COLUMNS, page, *seen)
    given = {f"of_{name}": value for name, value in query.equal.items()}
    if is_of_project:
        given["of_project"] = query.project_id
    wanted = _first_page(tuple(query.equal), page.sort, is_of_project=is_of_project)
    return wanted.all(tx, **given, of_offset=page.offset, of_limit=page.limit)


@lru_cache(maxsize=64)
def _first_page(
    names: tuple[str, ...], sort: tuple[tuple[str, str], ...], *, is_of_project: bool
) -> Prepared[Any]:
    """Return what lists attachments by these columns: every attach asks the same."""
    found = [ATTACHMENT_COLUMNS[name] == bindparam(f"of_{name}") for name in names]
    if is_of_project:
        found.append(AttachmentRow.project_id == bindparam("of_project"))
    wanted = (
        select(*_ATTACHMENT_COLUMNS).where(*found).order_by(*in_order(sort, ATTACHMENT_COLUMNS))
    )
    wanted = wanted.offset(bindparam("of_offset")).limit(bindparam("of_limit"))
    return Prepared(wanted, named("Listed", _ATTACHMENT_COLUMNS))


def _with_type() -> Select[Any]:
    joined = select(*_VOLUME_COLUMNS, TypeRow.name.label("type_name"))
    return joined.join(TypeRow, TypeRow.id == VolumeRow.volume_type_id)


_by_id = Prepared(
    _with_type().where(VolumeRow.id == bindparam("of_id")),
    named("Shown", _with_type().selected_columns),
)
_of_attached = (
    select(*_ATTACHMENT_COLUMNS)
    .where(AttachmentRow.attach_status == "attached")
    .order_by(AttachmentRow.attached_at, AttachmentRow.id)
)
_attached = _of_attached.where(AttachmentRow.volume_id.in_(bindparam("of_ids", expanding=True)))
_attached_to = Prepared(
    _of_attached.where(AttachmentRow.volume_id == bindparam("of_id")),
    named("Attached", _ATTACHMENT_COLUMNS),
)
_backends = Prepared[tuple[str, str, str]](
    select(BackendRow.name, BackendRow.service_id, BackendRow.protocol)
)


def _of_volumes(tx: Session, query: Query) -> list[ColumnElement[bool]]:
    found = equal_to(query, VOLUME_COLUMNS)
    if query.project_id is not None:
        found.append(VolumeRow.project_id == query.project_id)
    for name, text in query.like.items():
        found.append(type_coerce(VOLUME_COLUMNS[name], Text).icontains(text, autoescape=True))
    for column, pairs in (
        (VolumeRow.labels, query.metadata),
        (VolumeRow.image_metadata, query.image_metadata),
    ):
        found += [has_pair(tx, column, key, value) for key, value in pairs.items()]
    return found


def found_by(
    tx: Session,
    query: Query,
    columns: Mapping[str, Column],
    row: type[SnapshotRow | BackupRow],
) -> list[ColumnElement[bool]]:
    """Return the conditions of a query for what volumes have: by owner, words and metadata."""
    found = equal_to(query, columns)
    if query.project_id is not None:
        found.append(row.project_id == query.project_id)
    for name, text in query.like.items():
        found.append(type_coerce(columns[name], Text).icontains(text, autoescape=True))
    found += [has_pair(tx, row.labels, key, value) for key, value in query.metadata.items()]
    return found


def equal_to(query: Query, columns: Mapping[str, Column]) -> list[ColumnElement[bool]]:
    """Return the conditions of a query's `equal`, `moments` and `nothing`."""
    found: list[ColumnElement[bool]] = [false()] if query.nothing else []
    for name, value in query.equal.items():
        column = columns[name]
        found.append(column == value)
    return found + [_compare(columns[moment.column], moment) for moment in query.moments]


def _compare(column: Column, moment: Moment) -> ColumnElement[bool]:
    time = moment.time
    made: dict[Compare, ColumnElement[bool]] = {
        "gt": column > time,
        "gte": column >= time,
        "eq": column == time,
        "neq": column != time,
        "lt": column < time,
        "lte": column <= time,
    }
    return made[moment.compare]
