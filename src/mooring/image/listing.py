"""Lists of images: what a query lets through, in which order, and where a page begins.

Source: facts/identity_image_placement.md 8.5.
"""

from __future__ import annotations

import csv
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from sqlalchemy import ColumnElement, and_, exists, false, func, or_, select

from mooring.errors import Invalid
from mooring.image import attributes, images, records
from mooring.image.records import Record
from mooring.image.tables import ImageRow, MemberRow, PropertyRow, TagRow
from mooring.web import words

if TYPE_CHECKING:
    from sqlalchemy.orm import Session
    from starlette.datastructures import QueryParams

    from mooring.web.paging import Page
    from mooring.who import Who

Condition = ColumnElement[bool]

NOT_FILTERS = frozenset(("limit", "marker", "sort", "sort_key", "sort_dir", "offset"))
_NUMBERS = {
    "size": ImageRow.size_bytes,
    "virtual_size": ImageRow.virtual_size_bytes,
    "min_disk": ImageRow.min_disk_gib,
    "min_ram": ImageRow.min_ram_mib,
}
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
    "eq": operator.eq,
    "neq": operator.ne,
}
_MEMBER_STATUSES = ("pending", "accepted", "rejected", "all")
_TRUE, _FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")

SORT_KEYS: dict[str, Any] = {
    "id": ImageRow.id,
    "name": func.coalesce(ImageRow.name, ""),
    "status": ImageRow.status,
    "container_format": func.coalesce(ImageRow.container_format, ""),
    "disk_format": func.coalesce(ImageRow.disk_format, ""),
    "size": func.coalesce(ImageRow.size_bytes, -1),
    "virtual_size": func.coalesce(ImageRow.virtual_size_bytes, -1),
    "min_disk": ImageRow.min_disk_gib,
    "min_ram": ImageRow.min_ram_mib,
    "owner": func.coalesce(ImageRow.owner, ""),
    "visibility": ImageRow.visibility,
    "created_at": ImageRow.created_at,
    "updated_at": ImageRow.updated_at,
}
"""What may be sorted by. Without a value comes before every value, on all databases alike."""


class Found(Struct, frozen=True):
    """One page of images, and whether there are more behind it."""

    images: list[Record]
    more: bool


def find(tx: Session, who: Who, conditions: Sequence[Condition], page: Page) -> Found:
    """Return one page of what the caller may see. Raises Invalid for an unknown marker."""
    order = [*page.sort]
    if not any(key == "id" for key, _ in order):
        order.append(("id", order[-1][1] if order else "desc"))
    query = select(ImageRow.id).where(*conditions)
    if page.marker is not None:
        query = query.where(_after(tx, who, page.marker, order))
    for key, direction in order:
        column = SORT_KEYS[key]
        query = query.order_by(column.asc() if direction == "asc" else column.desc())
    ids = list(tx.scalars(query.limit(page.limit + 1)))
    shown = records.load(tx, ids[: page.limit], who.project_id)
    return Found(shown, more=len(ids) > page.limit)


def read_conditions(query: QueryParams, who: Who) -> list[Condition]:
    """Return what a query asks for, and what the caller may see at all. Raises Invalid."""
    conditions = [_visible(query, who)]
    if "os_hidden" not in query:
        conditions.append(ImageRow.os_hidden.is_(False))
    for name, value in query.multi_items():
        if name not in NOT_FILTERS and name not in ("visibility", "member_status"):
            conditions.append(_condition(name, value))
    return conditions


def _visible(query: QueryParams, who: Who) -> Condition:
    """Return which images the caller may see, narrowed by `visibility` and `member_status`."""
    visibility = query.get("visibility")
    if visibility not in (None, "all", *attributes.VISIBILITIES):
        raise Invalid(f"Invalid visibility value: {visibility[:64]!r}.")
    member_status = query.get("member_status", "accepted")
    if member_status not in _MEMBER_STATUSES:
        raise Invalid(f"Invalid status: member_status is one of {', '.join(_MEMBER_STATUSES)}.")
    named = _named(visibility)
    if who.is_admin:
        return named
    own = ImageRow.owner == who.project_id if who.project_id else false()
    seen = [own, ImageRow.visibility == "public", _shared_with(who, member_status)]
    if visibility in ("community", "all"):
        seen.append(ImageRow.visibility == "community")
    return and_(or_(*seen), named)


def _named(visibility: str | None) -> Condition:
    if visibility in (None, "all"):
        return ImageRow.id.is_not(None)
    return ImageRow.visibility == visibility


def _shared_with(who: Who, status: str) -> Condition:
    member = exists().where(
        MemberRow.image_id == ImageRow.id, MemberRow.member_id == who.project_id
    )
    if status != "all":
        member = member.where(MemberRow.status == status)
    return and_(ImageRow.visibility == "shared", member)


def _condition(name: str, value: str) -> Condition:
    """Return what one filter lets through. Raises Invalid."""
    if name in _READERS:
        return _READERS[name](name, value)
    return exists().where(
        PropertyRow.image_id == ImageRow.id, PropertyRow.name == name, PropertyRow.value == value
    )


def _word(name: str, value: str) -> Condition:
    return getattr(ImageRow, name) == value


def _words(name: str, value: str) -> Condition:
    return getattr(ImageRow, name).in_(_listed(name, value))


def _count(name: str, value: str) -> Condition:
    return _NUMBERS[name] == _number(name, value)


def _size_min(name: str, value: str) -> Condition:
    return ImageRow.size_bytes >= _number(name, value)


def _size_max(name: str, value: str) -> Condition:
    return ImageRow.size_bytes <= _number(name, value)


def _is(name: str, value: str) -> Condition:
    return getattr(ImageRow, name).is_(_flag(name, value))


def _tagged(_name: str, value: str) -> Condition:
    return exists().where(TagRow.image_id == ImageRow.id, TagRow.tag == value)


def _listed(name: str, value: str) -> list[str]:
    """Read `in:a,"b,c"`, or one value as it is; each once, as a statement takes so many."""
    text = value.removeprefix("in:")
    if text == value:
        return [value]
    try:
        (found,) = csv.reader([text], strict=True)
    except (csv.Error, ValueError) as error:
        raise Invalid(f"Invalid filter value for {name}: {value[:64]!r}.") from error
    return list(dict.fromkeys(found))


def _number(name: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 19):
        raise Invalid(f"Invalid filter value for {name}: {value[:64]!r} is no number from 0 up.")
    return int(value)


def _flag(name: str, value: str) -> bool:
    if value.lower() not in (*_TRUE, *_FALSE):
        raise Invalid(f"Invalid filter value for {name}: {value[:64]!r} is not true or false.")
    return value.lower() in _TRUE


def _time(name: str, value: str) -> Condition:
    """Read `gt:2026-01-01T00:00:00Z`, or a time as it is."""
    word, colon, text = value.partition(":")
    compare = _COMPARE.get(word) if colon else None
    try:
        moment = words.instant(text if compare else value)
    except ValueError as error:
        raise Invalid(f"Invalid filter value for {name}: {value[:64]!r} is no time.") from error
    return (compare or operator.eq)(getattr(ImageRow, name), moment)


_READERS: dict[str, Callable[[str, str], Condition]] = {
    **dict.fromkeys(("checksum", "os_hash_algo", "os_hash_value", "owner"), _word),
    **dict.fromkeys(("id", "name", "status", "container_format", "disk_format"), _words),
    **dict.fromkeys(_NUMBERS, _count),
    **dict.fromkeys(("protected", "os_hidden"), _is),
    **dict.fromkeys(("created_at", "updated_at"), _time),
    "size_min": _size_min,
    "size_max": _size_max,
    "tag": _tagged,
}
"""How each filter is read; any other name is that of a property."""


def _after(tx: Session, who: Who, marker: str, order: Sequence[tuple[str, str]]) -> Condition:
    """Return what stands behind the marker in this order. Raises Invalid when it is not there."""
    columns = [SORT_KEYS[key] for key, _ in order]
    row = tx.execute(select(*columns).where(ImageRow.id == marker)).first()
    # Of an image that is not seen, its place among those that are would tell what it is.
    found = records.load(tx, [marker], who.project_id) if row is not None else []
    if row is None or not any(images.can_see(who, one) for one in found):
        raise Invalid(f"Invalid marker: there is no image {marker[:64]!r}.")
    behind: list[Condition] = []
    for at, (_, direction) in enumerate(order):
        same = [column == row[i] for i, column in enumerate(columns[:at])]
        compare = operator.gt if direction == "asc" else operator.lt
        behind.append(and_(*same, compare(columns[at], row[at])))
    return or_(*behind)
