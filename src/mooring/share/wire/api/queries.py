"""From the query string of a list to what is looked for. Source: facts/shared_file_systems.md 8.4.

Unknown filters are dropped, as upstream does.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring import limits
from mooring.errors import Invalid
from mooring.share.shares import listing
from mooring.share.shares.listing import Query
from mooring.share.snapshots import snapshot_list
from mooring.share.wire.api import values
from mooring.share.wire.views import Around
from mooring.web import paging, words

if TYPE_CHECKING:
    from mooring.share.service import Share
    from mooring.web.api import Call
    from mooring.web.paging import Page

_EQUAL = (
    *("name", "display_name", "status", "share_type_id", "snapshot_id", "description"),
    *("share_proto", "id"),
)
_FOR_ADMINS = ("host", "user_id")
_GUARDED = {"host": "share:list_by_host", "share_server_id": "share:list_by_share_server_id"}
"""Filters for which there is a rule of its own, as Manila has them."""
_LIKE = ("name", "display_name", "description", "display_description")
_NONE_HERE = ("share_network_id", "share_group_id", "share_server_id", "mount_point_name")
"""What no share here has: who asks for it finds none."""
_OF_SNAPSHOTS = ("name", "display_name", "status", "share_id", "size", "description")


def shares(call: Call[Share]) -> Query:
    """Read what shares are asked for. Raises Invalid."""
    for name, rule in _GUARDED.items():
        if name in call.query:
            call.require(rule)
    public = values.is_set(call.query.get("is_public"))
    # Which of them share a pool the order would tell, too.
    keys = dict(listing.COLUMNS)
    if not call.who.is_admin:
        del keys["host"]
    query = Query(
        project_id=project(call),
        page=page(call, keys),
        is_public=public,
        nothing=call.version >= (2, 69) and values.read_flag(call.query, "is_soft_deleted"),
    )
    for key, value in call.query.items():
        query = _filter(call, query, key, value)
    return query


def snapshots(call: Call[Share]) -> Query:
    """Read what snapshots are asked for. Raises Invalid."""
    query = Query(project_id=project(call), page=page(call, snapshot_list.COLUMNS))
    for key, value in call.query.items():
        name = key.removesuffix("~")
        if key.endswith("~") and name in _LIKE and call.version >= (2, 36):
            query = replace(query, like={**query.like, name: value})
        elif key in _OF_SNAPSHOTS:
            query = replace(query, equal={**query.equal, key: _read(key, value)})
        elif key == "metadata" and call.version >= (2, 73):
            query = replace(query, metadata=values.pairs(value, key))
    return query


def project(call: Call[Share]) -> str | None:
    """Return whose rows are listed; None: everybody's. Users who ask for all get their own."""
    if not call.who.is_admin:
        return call.who.project_id
    named = call.query.get("project_id")
    if named is not None:
        return named
    wants_all = values.read_flag(call.query, "all_tenants")
    return None if wants_all else call.who.project_id


def page(call: Call[Share], columns: Mapping[str, Any]) -> Page:
    """Read which page is asked for. Raises Invalid."""
    found = paging.read(call.query, keys=columns)
    if any(name == "id" for name, _ in found.sort):
        return found
    # The id makes the order total, so that a marker names one place in it.
    return replace(found, sort=(*found.sort, ("id", found.sort[0][1])))


def around(tx: Session, call: Call[Share], rows: listing.Rows) -> Around:
    """Load what belongs to shares that are shown."""
    inline = listing.paths_of(tx, rows) if call.version < (2, 9) else {}
    return Around(listing.access_of(tx, rows), inline)


def moment(call: Call[Share], name: str) -> datetime | None:
    """Read a time, in UTC unless it says otherwise; None when it is not given. Raises Invalid."""
    text = call.query.get(name)
    if not text:
        return None
    try:
        return words.instant(text)
    except ValueError as error:
        raise Invalid(
            f"Invalid input received: Invalid {name} value '{text[:64]}'. Use ISO 8601.",
        ) from error


def _filter(call: Call[Share], query: Query, key: str, value: str) -> Query:
    name = key.removesuffix("~")
    if key.endswith("~") and name in _LIKE and call.version >= (2, 36):
        return replace(query, like={**query.like, name: value})
    if key in {"metadata", "extra_specs"}:
        return replace(query, **{key: values.pairs(value, key)})
    if key.startswith("export_location_") and call.version >= (2, 35):
        return replace(query, exported={**query.exported, key.rpartition("_")[2]: value})
    if key in _NONE_HERE:
        return replace(query, nothing=query.nothing or value.lower() not in {"", "none", "null"})
    if key in _EQUAL or (key in _FOR_ADMINS and call.who.is_admin):
        return replace(query, equal={**query.equal, key: value})
    return query


def _read(key: str, value: str) -> Any:
    if key != "size":
        return value
    return values.whole_number(value, key, least=0, most=limits.VOLUME_SIZE_GIB)
