"""Share instances: /share_instances, from 2.3 on, for administrators.

An instance is where a share lies. Each share has one here, whose id is the share's own; what is
done to the one is done to the other. Source: facts/shared_file_systems.md 8.3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.share.service import Share
from mooring.share.shares import listing, shares
from mooring.share.wire import views
from mooring.share.wire.api import queries
from mooring.share.wire.api.values import asked, renamed_action
from mooring.web.api import Api, Call, Reply

api = Api[Share]()
Find: TypeAlias = Callable[[Session], listing.Rows]

_ONE = "/share_instances/{instance_id}"
_ACTION = f"{_ONE}/action"
_SINCE = (2, 3)


class StatusBody(Struct, frozen=True):
    """The value of `reset_status`."""

    status: str


@api.get("/share_instances", policy="share_instance:index", since=_SINCE)
async def list_instances(call: Call[Share]) -> Reply:
    """List the instances of all shares."""
    query = replace(queries.shares(call), project_id=None)
    return await _list(call, lambda tx: listing.shares(tx, query))


@api.get("/shares/{share_id}/instances", policy="share_instance:index", since=_SINCE)
async def list_of_share(call: Call[Share]) -> Reply:
    """List the one instance of a share."""
    return await _list(call, lambda tx: [listing.share(tx, call.who, call.path["share_id"])])


@api.get(_ONE, policy="share_instance:show", since=_SINCE)
async def show_instance(call: Call[Share]) -> Reply:
    """Show one."""
    instance_id = call.path["instance_id"]
    [shown] = await _show(call, lambda tx: [listing.share(tx, call.who, instance_id)])
    return Reply(200, {"share_instance": shown})


@renamed_action(
    api.action,
    _ACTION,
    "reset_status",
    StatusBody,
    policy="share_instance:reset_status",
    since=_SINCE,
)
async def reset_status(call: Call[Share], body: StatusBody) -> Reply:
    """Set the share's status by hand."""
    await shares.reset_status(asked(call), call.path["instance_id"], body.status)
    return Reply(202)


@renamed_action(
    api.action, _ACTION, "force_delete", policy="share_instance:force_delete", since=_SINCE
)
async def force_delete(call: Call[Share]) -> Reply:
    """Delete the share in any status."""
    await shares.delete(asked(call), call.path["instance_id"], force=True)
    return Reply(202)


async def _list(call: Call[Share], find: Find) -> Reply:
    return Reply(200, {"share_instances": await _show(call, find)})


async def _show(call: Call[Share], find: Find) -> list[dict[str, Any]]:
    def look(tx: Session) -> tuple[listing.Rows, views.Around]:
        rows = find(tx)
        return rows, queries.around(tx, call, rows)

    rows, around = await call.service.store.read(look)
    return [views.instance(call, row, around) for row in rows]
