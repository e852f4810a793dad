"""Resource locks: /resource-locks, from 2.81 on; those of access rules from 2.82.

Source: facts/shared_file_systems.md 5.1.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from mooring.errors import Invalid
from mooring.share.locks import lock_list, locking, locks
from mooring.share.service import Share
from mooring.share.wire import views
from mooring.share.wire.api import queries, values
from mooring.share.wire.api.values import Text, asked
from mooring.web import paging
from mooring.web.api import Api, Call, Reply

api = Api[Share]()

_ALL, _ONE = "/resource-locks", "/resource-locks/{lock_id}"
_SINCE, _RULES_SINCE = (2, 81), (2, 82)
_EQUAL = (
    *("user_id", "resource_id", "resource_type", "resource_action"),
    *("lock_context", "lock_reason"),
)


class LockBody(Struct, frozen=True):
    """A lock to make."""

    resource_id: str
    resource_type: Literal["share", "access_rule"] = "share"
    resource_action: Literal["delete", "show"] = "delete"
    lock_reason: Text | None = None


class ChangesBody(Struct, frozen=True, forbid_unknown_fields=True):
    """What PUT changes."""

    resource_action: Literal["delete", "show"] | UnsetType = UNSET
    lock_reason: Text | UnsetType | None = UNSET


@api.post(_ALL, LockBody, key="resource_lock", policy="resource_lock:create", since=_SINCE)
async def create_lock(call: Call[Share], body: LockBody) -> Reply:
    """Lock a share or an access rule."""
    if body.resource_type != "share" and call.version < _RULES_SINCE:
        raise Invalid(
            "Invalid input received: Access rules are locked from microversion 2.82 on. Nothing "
            "was changed.",
        )
    names = body.resource_type, body.resource_id, body.resource_action, body.lock_reason
    return await _reply(call, await locking.create(asked(call), *names))


@api.get(_ALL, policy="resource_lock:get_all", since=_SINCE)
async def list_locks(call: Call[Share]) -> Reply:
    """List the locks of the project; an administrator or a service may ask for everybody's."""
    query = _read_query(call)
    with_count = values.read_flag(call.query, "with_count")

    def look(tx: Any) -> tuple[list[Any], int]:
        return lock_list.find(tx, query), lock_list.count(tx, query) if with_count else 0

    rows, count = await call.service.store.read(look)
    answer: dict[str, Any] = {"resource_locks": [views.lock(call, row) for row in rows]}
    ids = [row.id for row in rows]
    answer |= paging.links(call, _ALL, query.page, ids, name="resource_locks_links")
    if with_count:
        answer["count"] = count
    return Reply(200, answer)


@api.get(_ONE, policy="resource_lock:get", since=_SINCE)
async def show_lock(call: Call[Share]) -> Reply:
    """Show one."""
    return await _reply(call, call.path["lock_id"])


@api.put(_ONE, ChangesBody, key="resource_lock", policy="resource_lock:update", since=_SINCE)
async def update_lock(call: Call[Share], body: ChangesBody) -> Reply:
    """Change what is locked, or why."""
    if body == ChangesBody():
        raise Invalid("Invalid input received: Give resource_action or lock_reason.")
    changes = locking.Changes(action=body.resource_action, reason=body.lock_reason)
    await locking.update(asked(call), call.path["lock_id"], changes)
    return await _reply(call, call.path["lock_id"])


@api.delete(_ONE, policy="resource_lock:delete", since=_SINCE)
async def delete_lock(call: Call[Share]) -> Reply:
    """Unlock."""
    await locking.remove(asked(call), call.path["lock_id"])
    return Reply(204)


async def _reply(call: Call[Share], lock_id: str) -> Reply:
    row = await call.service.store.read(lambda tx: locking.visible(tx, call.who, lock_id))
    return Reply(200, {"resource_lock": views.lock(call, row)})


def _read_query(call: Call[Share]) -> lock_list.LockQuery:
    return lock_list.LockQuery(
        project_id=_project(call),
        page=queries.page(call, lock_list.COLUMNS),
        equal={name: call.query[name] for name in _EQUAL if name in call.query},
        reason_like=call.query.get("lock_reason~", ""),
        since=queries.moment(call, "created_since"),
        before=queries.moment(call, "created_before"),
    )


def _project(call: Call[Share]) -> str | None:
    """Return whose locks are listed; None: everybody's, which users are never shown."""
    if locks.context_of(call.who) == "user":
        return call.who.project_id
    named = call.query.get("project_id")
    if named is not None:
        return named
    everybody = ("all_projects", "all_tenants")
    wants_all = any(values.read_flag(call.query, name) for name in everybody)
    return None if wants_all else call.who.project_id
