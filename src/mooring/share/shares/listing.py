"""Lists of shares: which rows, in what order. Rows are Core rows, not objects.

Source: facts/shared_file_systems.md 8.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct
from sqlalchemy import ColumnElement, Row, Select, Text, false, func, or_, select, type_coerce
from sqlalchemy.orm import Session

from mooring.errors import NotFound
from mooring.share.access import rule_rows
from mooring.share.tables import ExportRow, ShareRow, TypeRow
from mooring.store.pages import Column, has_pair, of_project, page_of
from mooring.web.paging import Page
from mooring.who import Who

Rows = Sequence[Row[Any]]
_COLUMNS: tuple[Column, ...] = tuple(
    getattr(ShareRow, each.key) for each in ShareRow.__mapper__.column_attrs
)

COLUMNS: Mapping[str, Column] = {
    "availability_zone": ShareRow.zone,
    "availability_zone_id": ShareRow.zone,
    "created_at": ShareRow.created_at,
    "description": ShareRow.description,
    "display_description": ShareRow.description,
    "display_name": ShareRow.name,
    "host": ShareRow.pool,
    "id": ShareRow.id,
    "is_public": ShareRow.is_public,
    "name": ShareRow.name,
    "project_id": ShareRow.project_id,
    "share_proto": ShareRow.protocol,
    "share_type_id": ShareRow.share_type_id,
    "size": ShareRow.size_gib,
    "snapshot_id": ShareRow.snapshot_id,
    "status": ShareRow.status,
    "updated_at": ShareRow.updated_at,
    "user_id": ShareRow.user_id,
}
"""What shares are filtered and sorted by."""


class Query(Struct, frozen=True, kw_only=True):
    """Which shares to list. `project_id` None means those of all projects."""

    project_id: str | None
    page: Page
    is_public: bool = False
    """Whether public shares of other projects are listed too."""
    equal: Mapping[str, Any] = {}
    """By column."""
    like: Mapping[str, str] = {}
    """By column: what its text contains, in any case."""
    metadata: Mapping[str, str] = {}
    extra_specs: Mapping[str, str] = {}
    exported: Mapping[str, str] = {}
    """`id` or `path` of one of its export locations."""
    nothing: bool = False
    """Whether it asks for what no share here has."""


def shares(tx: Session, query: Query) -> Rows:
    """Return one page of shares, each with its `type_name`. Raises NotFound for a bad marker."""
    wanted = _with_type().where(*_found_by(tx, query))
    # Whoever may know of a public share may begin behind it.
    own = of_project(ShareRow.project_id, query.project_id)
    seen = [or_(*own, ShareRow.is_public.is_(True))] if own else []
    return page_of(tx, wanted, COLUMNS, query.page, *seen)


def count(tx: Session, query: Query) -> int:
    """Return how many shares the filters find, on all pages."""
    counted = select(func.count()).select_from(ShareRow)
    joined = counted.join(TypeRow, TypeRow.id == ShareRow.share_type_id)
    return tx.execute(joined.where(*_found_by(tx, query))).scalar_one()


def share(tx: Session, who: Who, share_id: str) -> Any:
    """Return a share that this caller may see, with its `type_name`. Raises NotFound."""
    row = tx.execute(_with_type().where(ShareRow.id == share_id)).first()
    if row is None or not (who.is_admin or row.is_public or row.project_id == who.project_id):
        raise NotFound(f"Share {share_id} could not be found.")
    return row


def access_of(tx: Session, rows: Sequence[Any]) -> dict[str, str]:
    """Return what the rules of shares come to, by the share's id."""
    return rule_rows.statuses_of(tx, [row.id for row in rows])


def paths_of(tx: Session, rows: Sequence[Any]) -> dict[str, list[str]]:
    """Return the paths of shares' export locations, the preferred ones first, by the share's id."""
    query = select(ExportRow.share_id, ExportRow.path)
    of_these = query.where(ExportRow.share_id.in_([row.id for row in rows]))
    found: dict[str, list[str]] = {}
    in_order = of_these.order_by(ExportRow.preferred.desc(), ExportRow.path)
    for share_id, path in tx.execute(in_order):
        found.setdefault(share_id, []).append(path)
    return found


def _with_type() -> Select[Any]:
    joined: Any = select(*_COLUMNS, TypeRow.name.label("type_name"))
    return joined.join(TypeRow, TypeRow.id == ShareRow.share_type_id)


def _found_by(tx: Session, query: Query) -> list[ColumnElement[bool]]:
    found: list[ColumnElement[bool]] = [false()] if query.nothing else []
    for name, value in query.equal.items():
        column = COLUMNS[name]
        found.append(column == value)
    if query.project_id is not None:
        own = ShareRow.project_id == query.project_id
        found.append(or_(own, ShareRow.is_public.is_(True)) if query.is_public else own)
    for name, text in query.like.items():
        found.append(type_coerce(COLUMNS[name], Text).icontains(text, autoescape=True))
    for column, pairs in (
        (ShareRow.labels, query.metadata),
        (TypeRow.extra_specs, query.extra_specs),
    ):
        found += [has_pair(tx, column, key, value) for key, value in pairs.items()]
    for name, value in query.exported.items():
        column = ExportRow.id if name == "id" else ExportRow.path
        found.append(ShareRow.id.in_(select(ExportRow.share_id).where(column == value)))
    return found
