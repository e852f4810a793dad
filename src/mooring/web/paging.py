"""Pages of a list: limit, marker, sort keys, and the link to the next page.

Source: facts/block_storage.md 7.4, facts/identity_image_placement.md 4.1.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from msgspec import Struct

from mooring import limits
from mooring.errors import Invalid

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams

    from mooring.web.api import Call


class Page(Struct, frozen=True):
    """One page as asked for. `limit` is in rows; `sort` is (key, "asc" or "desc"), in order."""

    limit: int
    marker: str | None = None
    offset: int = 0
    sort: tuple[tuple[str, str], ...] = ()


def read(
    query: QueryParams,
    *,
    keys: Collection[str] = (),
    default: tuple[tuple[str, str], ...] = (("created_at", "desc"), ("id", "desc")),
    most: int = limits.WEB_PAGE_ROWS,
) -> Page:
    """Read `limit`, `marker`, `offset` and the sort order of a query.

    The order comes as `sort=key:dir,key:dir` or as `sort_key` and `sort_dir`, which may be
    repeated; a `sort_dir` alone turns the `default`. `keys` are those that may be sorted by: a list
    without any has one order, and ignores others that it is asked for. A key that comes again
    orders nothing more, and would make what comes after a marker long. A limit over `most` is cut
    to it. Raises Invalid.
    """
    limit = _count(query, "limit", most)
    first: dict[str, str] = {}
    for key, direction in _sort(query, keys, default) if keys else ():
        first.setdefault(key, direction)
    sort = tuple(first.items())
    return Page(
        min(limit, most), query.get("marker") or None, _count(query, "offset", 0), sort or default
    )


def next_link(call: Call[Any], path: str, page: Page, ids: Collection[str]) -> str | None:
    """Return the URL of the next page when this one, whose rows have `ids`, is full; else None.

    `path` is that of the route (`/servers/detail`).
    """
    if not ids or len(ids) < page.limit:
        return None
    *_, last = ids
    kept = [
        (key, value)
        for key, value in call.query.multi_items()
        if key not in ("marker", "limit", "offset")
    ]
    return call.url(path) + "?" + urlencode([*kept, ("limit", page.limit), ("marker", last)])


def links(
    call: Call[Any], path: str, page: Page, ids: Collection[str], *, name: str
) -> dict[str, list[dict[str, str]]]:
    """Return `{"<name>": [{"rel": "next", "href": ...}]}` after a full page, else an empty dict."""
    href = next_link(call, path, page, ids)
    return {name: [{"rel": "next", "href": href}]} if href else {}


def _count(query: QueryParams, name: str, default: int) -> int:
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise Invalid(f"Invalid input for {name}: '{text}' is not a whole number from 0 up.")
    return int(text)


def _sort(
    query: QueryParams, keys: Collection[str], default: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    combined = query.get("sort")
    names, directions = query.getlist("sort_key"), query.getlist("sort_dir")
    if combined and (names or directions):
        raise Invalid("Use either 'sort', or 'sort_key' and 'sort_dir', not both.")
    if combined:
        pairs = [part.strip().partition(":")[::2] for part in combined.split(",")]
        return tuple(_sort_key(name, direction or "desc", keys) for name, direction in pairs)
    if len(directions) > max(len(names), 1):
        raise Invalid("There are more 'sort_dir' than 'sort_key'.")
    if directions and not names:
        return tuple((name, _direction(directions[0])) for name, _ in default)
    padded = [*directions, *["desc"] * len(names)]
    return tuple(_sort_key(name, padded[at], keys) for at, name in enumerate(names))


def _sort_key(name: str, direction: str, keys: Collection[str]) -> tuple[str, str]:
    if name not in keys:
        raise Invalid(f"Sort key '{name}' is not one of {', '.join(sorted(keys))}.")
    return name, _direction(direction)


def _direction(text: str) -> str:
    if text not in ("asc", "desc"):
        raise Invalid(f"Sort direction '{text}' is neither asc nor desc.")
    return text
