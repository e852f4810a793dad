"""Lists of identity: filters by attribute, limit and marker, and the body that holds them.

Source: facts/identity_image_placement.md 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from sqlalchemy import ColumnElement, Select, func
from sqlalchemy.orm import InstrumentedAttribute

from mooring import limits
from mooring.errors import Invalid
from mooring.web import paging

if TYPE_CHECKING:
    from sqlalchemy.orm import Session
    from starlette.datastructures import QueryParams

    from mooring.identity.service import Identity
    from mooring.web.api import Call

R = TypeVar("R")
Columns = Mapping[str, InstrumentedAttribute[Any]]

_TRUE, _FALSE = ("true", "1", "yes", "on", ""), ("false", "0", "no", "off")
_COMPARISONS: dict[str, Callable[[Any, str], ColumnElement[bool]]] = {
    "": lambda column, value: column == value,
    "contains": lambda column, value: column.contains(value, autoescape=True),
    "startswith": lambda column, value: column.startswith(value, autoescape=True),
    "endswith": lambda column, value: column.endswith(value, autoescape=True),
    "icontains": lambda column, value: column.icontains(value, autoescape=True),
    "istartswith": lambda column, value: column.istartswith(value, autoescape=True),
    "iendswith": lambda column, value: column.iendswith(value, autoescape=True),
    "iexact": lambda column, value: func.lower(column) == value.lower(),
}


def is_true(query: QueryParams, name: str) -> bool:
    """Tell whether a flag is set: a bare name counts as true."""
    value = query.get(name)
    return value is not None and value.lower() not in _FALSE


def select_page(
    tx: Session, query: QueryParams, rows: Select[R], columns: Columns
) -> tuple[list[R], bool]:
    """Return one page, in the order of ids, and whether there are more rows.

    `columns` are those that may be filtered by, and `id`. Other filters are ignored, as Keystone
    does. Raises Invalid for a limit or a boolean that is none.
    """
    page = paging.read(query, most=limits.IDENTITY_PAGE_ROWS)
    for key, value in query.multi_items():
        name, _, how = key.partition("__")
        column, compare = columns.get(name), _COMPARISONS.get(how)
        if column is None or compare is None:
            continue
        if column.type.python_type is bool:
            rows = rows.where(column.is_(_boolean(name, value)))
        else:
            rows = rows.where(compare(column, value))
    if page.marker is not None:
        rows = rows.where(columns["id"] > page.marker)
    found = list(tx.scalars(rows.order_by(columns["id"]).limit(page.limit + 1)))
    return found[: page.limit], len(found) > page.limit


def body(
    call: Call[Identity], path: str, name: str, views: list[dict[str, Any]], *, more: bool = False
) -> dict[str, Any]:
    """Return the body of a list, with its links; `more` when it was cut."""
    query = call.request.url.query
    here = call.url(path)
    links: dict[str, str | None] = {
        "self": f"{here}?{query}" if query else here,
        "previous": None,
        "next": None,
    }
    whole: dict[str, Any] = {name: views, "links": links}
    if more and views:
        kept = [(key, value) for key, value in call.query.multi_items() if key != "marker"]
        links["next"] = f"{here}?{urlencode([*kept, ('marker', views[-1]['id'])])}"
        whole["truncated"] = True
    return whole


def _boolean(name: str, value: str) -> bool:
    if value.lower() in _TRUE:
        return True
    if value.lower() in _FALSE:
        return False
    raise Invalid(f"Invalid input for {name}: '{value}' is not a boolean.")
