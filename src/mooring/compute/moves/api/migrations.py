"""/os-migrations and /servers/{server_id}/migrations: moves of servers (facts/compute.md 11.4)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from mooring import limits
from mooring.compute.moves import live_migrating, migration_list
from mooring.compute.moves.migration_list import MigrationQuery
from mooring.compute.moves.migrations import LIVE, UNDER_WAY
from mooring.compute.servers import servers
from mooring.compute.service import Compute
from mooring.compute.tables import Migration
from mooring.compute.wire.api import queries
from mooring.compute.wire.api.values import microsecond, moment, read_truth
from mooring.errors import Invalid, NotFound
from mooring.web import paging
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()

_RULE = "os_compute_api:"
_OF_SERVER = "/servers/{server_id}/migrations"
_ONE = _OF_SERVER + "/{migration_id}"
_TYPED_SINCE, _PAGED_SINCE = (2, 23), (2, 59)
_BEFORE_SINCE, _OWNED_SINCE = (2, 66), (2, 80)
_EARLY_ABORT_SINCE = (2, 65)


@api.get("/os-migrations", policy=f"{_RULE}os-migrations:index")
async def list_migrations(call: Call[Compute]) -> Reply:
    """List moves of servers, the newest first: one's own project's, or all of them."""
    paged = call.version >= _PAGED_SINCE
    page = paging.read(call.query) if paged else paging.Page(0)
    query = _read_query(call, page if paged else None)
    rows = await call.service.store.read(lambda tx: migration_list.page(tx, query))
    shows_hosts = call.allowed(f"{_RULE}os-migrations:index:host")
    body = {"migrations": [_show(call, row, shows_hosts=shows_hosts) for row in rows]}
    if not paged:
        return Reply(200, body)
    ids = [row.uuid for row in rows]
    return Reply(
        200, body | paging.links(call, "/os-migrations", page, ids, name="migrations_links")
    )


@api.get(_OF_SERVER, policy=f"{_RULE}servers:migrations:index", since=(2, 23))
async def list_server_migrations(call: Call[Compute]) -> Reply:
    """List the live migrations of a server that last."""
    server_id = call.path["server_id"]

    def read(tx: Any) -> Sequence[Migration]:
        servers.visible(tx, call.who, server_id)
        return migration_list.under_way(tx, server_id)

    rows = await call.service.store.read(read)
    shows_hosts = call.allowed(f"{_RULE}servers:migrations:index:host")
    shown = [_show_progress(call, row, shows_hosts=shows_hosts) for row in rows]
    return Reply(200, {"migrations": shown})


@api.get(_ONE, policy=f"{_RULE}servers:migrations:show", since=(2, 23))
async def show_server_migration(call: Call[Compute]) -> Reply:
    """One live migration of a server, while it lasts."""
    server_id, move = call.path["server_id"], call.path["migration_id"]
    row = await call.service.store.read(
        lambda tx: live_migrating.find(tx, call.who, server_id, move)
    )
    if row.type != LIVE or row.status not in UNDER_WAY:
        raise NotFound(f"In-progress live migration {move} is not found for server {server_id}.")
    return Reply(200, {"migration": _show_progress(call, row, shows_hosts=True)})


@api.delete(_ONE, policy=f"{_RULE}servers:migrations:delete", since=(2, 24))
async def abort_migration(call: Call[Compute]) -> Reply:
    """Have a live migration end where it began; before 2.65 only one whose guest is on its way."""
    server_id, move = call.path["server_id"], call.path["migration_id"]
    early = call.version >= _EARLY_ABORT_SINCE
    await live_migrating.abort(call.service, call.who, server_id, move, early=early)
    return Reply(202)


@api.action(
    _ONE + "/action",
    "force_complete",
    None,
    since=(2, 22),
    policy=f"{_RULE}servers:migrations:force_complete",
)
async def force_complete(call: Call[Compute]) -> Reply:
    """Hold the guest still until it has arrived."""
    server_id, move = call.path["server_id"], call.path["migration_id"]
    await live_migrating.force_complete(call.service, call.who, server_id, move)
    return Reply(202)


def _read_query(call: Call[Compute], page: paging.Page | None) -> MigrationQuery:
    known = ["host", "hidden", "instance_uuid", "source_compute", "migration_type", "status"]
    if page is not None:
        known += ["limit", "marker", "changes-since"]
    if call.version >= _BEFORE_SINCE:
        known.append("changes-before")
    owned = call.version >= _OWNED_SINCE
    if owned:
        known += ["user_id", "project_id"]
    queries.check_keys(call, known, strict_since=_PAGED_SINCE)
    asked = call.query
    project_id = asked.get("project_id") if owned else None
    if not call.allowed(f"{_RULE}os-migrations:index:all_projects"):
        if project_id not in {None, call.who.project_id}:
            raise NotFound("Another project's migrations are shown to administrators only.")
        project_id = call.who.project_id
    query = MigrationQuery(
        server_id=asked.get("instance_uuid"),
        host=asked.get("host"),
        source=asked.get("source_compute"),
        status=asked.get("status"),
        type=asked.get("migration_type"),
        hidden=read_truth(asked["hidden"], "hidden") if "hidden" in asked else False,
        user_id=asked.get("user_id") if owned else None,
        project_id=project_id,
        changed_since=_moment(call, "changes-since", known),
        changed_before=_moment(call, "changes-before", known),
        marker=page.marker if page else None,
        limit=page.limit if page else limits.WEB_PAGE_ROWS,
    )
    if (
        query.changed_since is not None
        and query.changed_before is not None
        and query.changed_before < query.changed_since
    ):
        raise Invalid("The value of changes-since must be less than or equal to changes-before.")
    return query


def _moment(call: Call[Compute], name: str, known: Sequence[str]) -> datetime | None:
    text = call.query.get(name) if name in known else None
    return None if text is None else moment(text, name)


def _show(call: Call[Compute], row: Migration, *, shows_hosts: bool) -> dict[str, Any]:
    body = _hosts(row, shows_hosts=shows_hosts) | {
        "id": row.id,
        "status": row.status,
        "instance_uuid": row.server_id,
        "old_instance_type_id": _number(row.old_flavor_id),
        "new_instance_type_id": _number(row.new_flavor_id),
        "created_at": microsecond(row.created_at),
        "updated_at": microsecond(row.updated_at),
    }
    if call.version >= _TYPED_SINCE:
        body["migration_type"] = row.type
    if call.version >= _TYPED_SINCE and row.type == LIVE and row.status in UNDER_WAY:
        path = f"/servers/{row.server_id}/migrations/{row.id}"
        body["links"] = [
            {"rel": "self", "href": call.url(path)},
            {"rel": "bookmark", "href": call.bookmark(path)},
        ]
    return body | _newer(call, row)


def _show_progress(call: Call[Compute], row: Migration, *, shows_hosts: bool) -> dict[str, Any]:
    body = _hosts(row, shows_hosts=shows_hosts) | {
        "id": row.id,
        "server_uuid": row.server_id,
        "status": row.status,
        "memory_total_bytes": row.memory_total_bytes,
        "memory_processed_bytes": row.memory_processed_bytes,
        "memory_remaining_bytes": row.memory_remaining_bytes,
        "disk_total_bytes": row.disk_total_bytes,
        "disk_processed_bytes": row.disk_processed_bytes,
        "disk_remaining_bytes": row.disk_remaining_bytes,
        "created_at": microsecond(row.created_at),
        "updated_at": microsecond(row.updated_at),
    }
    return body | _newer(call, row)


def _hosts(row: Migration, *, shows_hosts: bool) -> dict[str, Any]:
    source, destination = (row.source, row.destination) if shows_hosts else (None, None)
    return {
        "source_compute": source,
        "source_node": source,
        "dest_compute": destination,
        "dest_node": destination,
        "dest_host": destination,
    }


def _newer(call: Call[Compute], row: Migration) -> dict[str, Any]:
    body: dict[str, Any] = {"uuid": row.uuid} if call.version >= _PAGED_SINCE else {}
    if call.version >= _OWNED_SINCE:
        body |= {"user_id": row.user_id, "project_id": row.project_id}
    return body


def _number(flavor_id: str) -> int | None:
    """Return a flavor's number, as Nova shows it; clients take nothing else but null."""
    return int(flavor_id) if flavor_id.isascii() and flavor_id.isdecimal() else None
