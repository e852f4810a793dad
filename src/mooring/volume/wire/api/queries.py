"""From the query string of a list to what is looked for. Source: facts/block_storage.md 7.4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace
from sqlalchemy import Boolean, Integer

from mooring import limits
from mooring.errors import Invalid
from mooring.store.types import UtcTime
from mooring.volume.backups import backup_list
from mooring.volume.snapshots import snapshot_list
from mooring.volume.transfers import transfer_list
from mooring.volume.types import type_list
from mooring.volume.volumes import listing, message_list
from mooring.volume.volumes.listing import Query
from mooring.volume.wire import views
from mooring.volume.wire.api import values
from mooring.web import paging

if TYPE_CHECKING:
    from mooring.store.pages import Column
    from mooring.volume.service import Volume
    from mooring.web.api import Call
    from mooring.web.paging import Page

_NO_PROJECT = "-"
"""What no project is called."""
_PAGING = frozenset(
    ("limit", "marker", "offset", "sort", "sort_key", "sort_dir", "all_tenants", "with_count")
)
_OPEN = frozenset(
    (
        *("name", "status", "metadata", "bootable", "migration_status", "availability_zone"),
        *("group_id", "size", "created_at", "updated_at", "consumes_quota", "display_name"),
    )
)
"""What anybody may filter volumes by."""
_TEXTS = frozenset(("name", "display_name", "status", "availability_zone", "description"))
_OF_SNAPSHOTS = frozenset(
    ("name", "display_name", "status", "volume_id", "availability_zone", "consumes_quota", "id")
)
"""What anybody may filter snapshots by."""
_OF_BACKUPS = frozenset(("name", "status", "volume_id", "id"))
"""What anybody may filter backups by."""

_OF_MESSAGES = frozenset(
    ("resource_uuid", "resource_type", "event_id", "request_id", "message_level", "id")
)
"""What anybody may filter messages by."""


def volumes(call: Call[Volume]) -> Query:
    """Read what volumes are asked for. Raises Invalid."""
    # Which of them share a host the order would tell, too.
    keys = [key for key in listing.VOLUME_COLUMNS if key != "host" or call.who.is_admin]
    query = Query(project_id=_project(call), page=_page(call, keys))
    for key, value in call.query.items():
        if key not in _PAGING:
            query = _filter_volumes(call, query, key, value)
    return query


def snapshots(call: Call[Volume]) -> Query:
    """Read what snapshots are asked for. Raises Invalid."""
    query = Query(project_id=_project(call), page=_page(call, snapshot_list.SORTED_BY))
    for key, value in call.query.items():
        if key not in _PAGING:
            query = _filter_snapshots(call, query, key, value)
    return query


def backups(call: Call[Volume]) -> Query:
    """Read what backups are asked for. Raises Invalid."""
    query = Query(project_id=_project(call), page=_page(call, backup_list.COLUMNS))
    for key, value in call.query.items():
        if key not in _PAGING:
            query = _filter_backups(call, query, key, value)
    return query


def transfers(call: Call[Volume]) -> Query:
    """Read what transfers are asked for. Raises Invalid."""
    columns = transfer_list.COLUMNS
    wanted = ("id", "name", "volume_id")
    equal = {key: call.query[key] for key in wanted if key in call.query}
    return Query(project_id=_project(call), page=_page(call, columns), equal=equal)


def attachments(call: Call[Volume]) -> Query:
    """Read what attachments are asked for. Raises Invalid."""
    columns = listing.ATTACHMENT_COLUMNS
    wanted = ("volume_id", "status", "attach_status", "instance_id")
    equal = {key: call.query[key] for key in wanted if key in call.query}
    return Query(project_id=_project(call), page=_page(call, columns), equal=equal)


def messages(call: Call[Volume]) -> Query:
    """Read what user messages are asked for; below 3.5 all. Raises Invalid."""
    if call.version < (3, 5):
        newest_first = (("created_at", "desc"), ("id", "desc"))
        page = paging.Page(limits.WEB_PAGE_ROWS, sort=newest_first)
        return Query(project_id=_project(call), page=page)
    query = Query(project_id=_project(call), page=_page(call, message_list.COLUMNS))
    for key, value in call.query.items():
        if key not in _PAGING:
            query = _filter_messages(call, query, key, value)
    return query


def types(call: Call[Volume]) -> Query:
    """Read what volume types are asked for. Raises Invalid."""
    admin, equal = call.who.is_admin, dict[str, Any]()
    wanted = call.query.get("is_public", "true").lower()
    if admin and wanted != "none":
        equal["is_public"] = values.flag(wanted, "is_public")
    if "name" in call.query:
        equal["name"] = call.query["name"]
    specs = dict[str, str]()
    if "extra_specs" in call.query and call.version >= (3, 52):
        specs = values.pairs(call.query["extra_specs"], "extra_specs")
    return Query(
        project_id=None if admin else call.who.project_id,
        page=_page(call, type_list.COLUMNS),
        equal=equal,
        metadata=specs,
        # Who may not read an extra spec must not learn of it by asking for its value.
        nothing=not all(views.may_read_spec(call, key) for key in specs),
    )


def _project(call: Call[Volume]) -> str | None:
    """Return whose rows are listed; None: everybody's. Raises Invalid for a flag that is none."""
    if not call.who.is_admin:
        # A token for no project must not find the copies of volumes, which are no project's.
        return call.who.project_id or _NO_PROJECT
    named = call.query.get("project_id")
    if named is not None:
        return named
    wants_all = values.read_flag(call.query, "all_tenants")
    return None if wants_all else call.who.project_id


def _page(call: Call[Volume], columns: Any) -> Page:
    page = paging.read(call.query, keys=columns)
    if any(name == "id" for name, _ in page.sort):
        return page
    # The id makes the order total, so that a marker names one place in it.
    return replace(page, sort=(*page.sort, ("id", page.sort[0][1])))


def _filter_volumes(call: Call[Volume], query: Query, key: str, value: str) -> Query:
    name = key.removesuffix("~")
    if key.endswith("~") and call.version >= (3, 34) and name in _TEXTS:
        return replace(query, like={**query.like, name: value})
    if key == "glance_metadata" and call.version >= (3, 4):
        return replace(query, image_metadata=values.pairs(value, key))
    if key == "project_id" and call.who.is_admin:
        return query
    known = key in _OPEN or (call.who.is_admin and key in listing.VOLUME_COLUMNS)
    if not known:
        if call.version >= (3, 31):
            raise Invalid(
                f"Invalid input received: Invalid filters {key} are found in query options."
            )
        return query
    return _filter_known(call, query, key, value)


def _filter_snapshots(call: Call[Volume], query: Query, key: str, value: str) -> Query:
    name = key.removesuffix("~")
    if key.endswith("~") and call.version >= (3, 34) and name in _TEXTS:
        return replace(query, like={**query.like, name: value})
    if key == "metadata" and call.version >= (3, 22):
        return replace(query, metadata=values.pairs(value, key))
    if key == "consumes_quota":
        return replace(query, nothing=query.nothing or not values.flag(value, key))
    if key in _OF_SNAPSHOTS or (call.who.is_admin and key in snapshot_list.COLUMNS):
        return _equal(call, query, snapshot_list.COLUMNS[key], key, value)
    if call.version >= (3, 31) and not (key == "project_id" and call.who.is_admin):
        raise Invalid(f"Invalid input received: Invalid filters {key} are found in query options.")
    return query


def _filter_backups(call: Call[Volume], query: Query, key: str, value: str) -> Query:
    name = key.removesuffix("~")
    if key.endswith("~") and call.version >= (3, 34) and name in {"name", "status"}:
        return replace(query, like={**query.like, name: value})
    if key == "metadata" and call.version >= (3, 43):
        return replace(query, metadata=values.pairs(value, key))
    if key in _OF_BACKUPS or (call.who.is_admin and key in backup_list.COLUMNS):
        return _equal(call, query, backup_list.COLUMNS[key], key, value)
    if call.version >= (3, 31) and not (key == "project_id" and call.who.is_admin):
        raise Invalid(f"Invalid input received: Invalid filters {key} are found in query options.")
    return query


def _filter_messages(call: Call[Volume], query: Query, key: str, value: str) -> Query:
    if key in _OF_MESSAGES or (call.who.is_admin and key in message_list.COLUMNS):
        return _equal(call, query, message_list.COLUMNS[key], key, value)
    if call.version >= (3, 31):
        raise Invalid(f"Invalid input received: Invalid filters {key} are found in query options.")
    return query


def _filter_known(call: Call[Volume], query: Query, key: str, value: str) -> Query:
    if key == "metadata":
        return replace(query, metadata=values.pairs(value, key))
    if key == "group_id":
        return replace(query, nothing=query.nothing or value.lower() not in {"", "none", "null"})
    if key == "consumes_quota":
        return replace(query, nothing=query.nothing or not values.flag(value, key))
    return _equal(call, query, listing.VOLUME_COLUMNS[key], key, value)


def _equal(call: Call[Volume], query: Query, column: Column, key: str, value: str) -> Query:
    """Ask for the rows whose column is this, read as what the column holds. Raises Invalid."""
    if isinstance(column.type, UtcTime):
        comparisons = call.version >= (3, 60)
        found = values.moments(value, key, comparisons=comparisons)
        return replace(query, moments=[*query.moments, *found])
    if isinstance(column.type, Boolean):
        return replace(query, equal={**query.equal, key: values.flag(value, key)})
    if isinstance(column.type, Integer):
        number = value.removesuffix("%") if key == "progress" else value
        read = values.whole_number(number, key, least=0, most=limits.VOLUME_SIZE_GIB)
        return replace(query, equal={**query.equal, key: read})
    return replace(query, equal={**query.equal, key: value})
