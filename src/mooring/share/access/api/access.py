"""Access rules: two actions of /shares/{share_id}/action, and /share-access-rules from 2.45 on.

Source: facts/shared_file_systems.md 4.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Struct
from sqlalchemy.orm import Session

from mooring.errors import Invalid, NotFound
from mooring.share.access import access, clients, rule_rows
from mooring.share.locks import locks
from mooring.share.locks.locks import Action
from mooring.share.service import Share
from mooring.share.shares import share_rows
from mooring.share.tables import RuleRow
from mooring.share.wire import views
from mooring.share.wire.api import values
from mooring.share.wire.api.values import Flag, Metadata, Text, asked, renamed_action
from mooring.web.api import Api, Call, Reply
from mooring.web.bodies import Since

api = Api[Share]()

_PATH = "/shares/{share_id}/action"
_RULES = "/share-access-rules"
_RULE = f"{_RULES}/{{access_id}}"
_SINCE, _FILTERS_SINCE = (2, 45), (2, 82)
_CEPHX_SINCE, _QUEUED_SINCE, _V6_SINCE = (2, 13), (2, 28), (2, 38)
_HIDDEN = ("access_to", "access_key")
_FILTERS = ("access_type", "access_level", *_HIDDEN)


class AllowBody(Struct, frozen=True):
    """The value of `allow_access`."""

    access_type: str
    access_to: str
    access_level: str | None = None
    metadata: Metadata | None = None
    lock_visibility: Annotated[Flag | None, Since(2, 82)] = None
    lock_deletion: Annotated[Flag | None, Since(2, 82)] = None
    lock_reason: Annotated[Text | None, Since(2, 82)] = None


class DenyBody(Struct, frozen=True):
    """The value of `deny_access`."""

    access_id: str
    unrestrict: Annotated[Flag | None, Since(2, 82)] = None


@renamed_action(api.action, _PATH, "allow_access", AllowBody, policy="share:allow_access")
async def allow_access(call: Call[Share], body: AllowBody) -> Reply:
    """Let a client mount it; the rule is active soon."""
    share_id = call.path["share_id"]
    rule_id = await access.allow(asked(call), share_id, _read_rule(call, body))
    return Reply(200, {"access": await _load(call, rule_id, is_made=True)})


@renamed_action(api.action, _PATH, "deny_access", DenyBody, policy="share:deny_access")
async def deny_access(call: Call[Share], body: DenyBody) -> Reply:
    """Keep a client out; the rule is gone once that is so."""
    unrestrict = body.unrestrict is not None and values.flag(body.unrestrict, "unrestrict")
    share_id = call.path["share_id"]
    await access.deny(asked(call), share_id, body.access_id, unrestrict=unrestrict)
    return Reply(202)


@api.action(_PATH, "os-access_list", policy="share:access_get_all", until=(2, 6))
@api.action(_PATH, "access_list", policy="share:access_get_all", since=(2, 7), until=(2, 44))
async def list_by_action(call: Call[Share]) -> Reply:
    """List the rules of a share, as clients before 2.45 do."""
    return Reply(200, {"access_list": await _list(call, call.path["share_id"])})


@api.get(_RULES, policy="share_access_rule:index", since=_SINCE)
async def list_rules(call: Call[Share]) -> Reply:
    """List the rules of the share that the query names."""
    share_id = call.query.get("share_id")
    if not share_id:
        raise Invalid("Invalid input received: Name the share by the query's share_id.")
    if call.version >= _FILTERS_SINCE and "access_to" in call.query:
        _require_type(call)
    try:
        return Reply(200, {"access_list": await _list(call, share_id)})
    except NotFound as error:
        raise Invalid(f"Invalid input received: {error.public}") from error


@api.get(_RULE, policy="share_access_rule:get", since=_SINCE)
async def show_rule(call: Call[Share]) -> Reply:
    """Show one rule, and whose it is."""
    return Reply(200, {"access": await _load(call, call.path["access_id"])})


@api.put(
    f"{_RULE}/metadata",
    Metadata,
    key="metadata",
    policy="share_access_metadata:update",
    since=_SINCE,
)
async def set_metadata(call: Call[Share], body: Metadata) -> Reply:
    """Add metadata to a rule's."""
    items = values.check_metadata(body)
    merged = await access.set_metadata(asked(call), call.path["access_id"], items)
    return Reply(200, {"metadata": merged})


@api.delete(f"{_RULE}/metadata/{{key}}", policy="share_access_metadata:delete", since=_SINCE)
async def delete_metadata(call: Call[Share]) -> Reply:
    """Remove one item of a rule's metadata."""
    await access.delete_metadata(asked(call), call.path["access_id"], call.path["key"])
    return Reply(200)


def _require_type(call: Call[Share]) -> None:
    if "access_type" not in call.query:
        raise Invalid("Invalid input received: The filter access_to needs access_type beside it.")


def _read_rule(call: Call[Share], body: AllowBody) -> access.NewRule:
    since = {
        "takes_cephx": call.version >= _CEPHX_SINCE,
        "takes_v6": call.version >= _V6_SINCE,
    }
    client = clients.check(body.access_type, body.access_to, **since)
    level = body.access_level or "rw"
    if level not in {"rw", "ro"}:
        raise Invalid(
            f"Invalid share access level: {level[:64]}. Nothing was changed; use rw or ro.",
        )
    metadata = body.metadata or {} if call.version >= _SINCE else {}
    return access.NewRule(
        access_type=body.access_type,
        access_to=body.access_to,
        client=client,
        access_level=level,
        metadata=values.check_metadata(metadata),
        is_new=call.version >= _QUEUED_SINCE,
        locked=_read_locked(body),
        lock_reason=body.lock_reason,
    )


def _read_locked(body: AllowBody) -> tuple[Action, ...]:
    wanted: tuple[tuple[Action, Flag | None, str], ...] = (
        ("delete", body.lock_deletion, "lock_deletion"),
        ("show", body.lock_visibility, "lock_visibility"),
    )
    locked: tuple[Action, ...] = tuple(
        [action for action, value, name in wanted if value is not None and values.flag(value, name)]
    )
    if body.lock_reason and not locked:
        raise Invalid(
            "Invalid input received: lock_reason is the reason of lock_deletion or "
            "lock_visibility. Nothing was changed; ask for one of them, or leave it out.",
        )
    return locked


async def _load(call: Call[Share], rule_id: str, *, is_made: bool = False) -> dict[str, Any]:
    """Show a rule; who has made it just now knows whom it lets in."""

    def look(tx: Session) -> tuple[RuleRow, str, bool]:
        row, _ = access.visible(tx, call.who, rule_id)
        hidden = not is_made and bool(locks.find_hidden(tx, call.who, [row.id]))
        return row, rule_rows.statuses_of(tx, [row.share_id])[row.share_id], hidden

    row, status, hidden = await call.service.store.read(look)
    return views.rule(call, row, status=status, is_hidden=hidden, whole=True)


async def _list(call: Call[Share], share_id: str) -> list[dict[str, Any]]:
    def look(tx: Session) -> tuple[list[RuleRow], frozenset[str]]:
        share = share_rows.visible_to_change(tx, call.who, share_id)
        rows = rule_rows.of_share(tx, share.id)
        return rows, locks.find_hidden(tx, call.who, [row.id for row in rows])

    rows, hidden = await call.service.store.read(look)
    status = rule_rows.status_of(row.state for row in rows)
    shown = [views.rule(call, row, status=status, is_hidden=row.id in hidden) for row in rows]
    return [rule for rule in shown if _is_wanted(call, rule, is_hidden=rule["id"] in hidden)]


def _is_wanted(call: Call[Share], rule: dict[str, Any], *, is_hidden: bool) -> bool:
    """Whether the query's filters find a rule as it is shown; what is hidden they do not find."""
    query = call.query
    labels = values.pairs(query.get("metadata", "{}"), "metadata")
    if not labels.items() <= rule.get("metadata", {}).items():
        return False
    if call.version < _FILTERS_SINCE:
        return True
    if is_hidden and not query.keys().isdisjoint(_HIDDEN):
        return False
    return all(query.get(name) in (None, rule[name]) for name in _FILTERS)
