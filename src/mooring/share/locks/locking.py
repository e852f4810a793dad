"""What a client may lock, and when. Source: facts/shared_file_systems.md 5.1 and 5.2.

Policy is checked by the route. Errors: NotFound for what the caller may not see, Invalid for what
cannot be locked, Conflict for a state that forbids it, Forbidden for a lock of somebody else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, UnsetType
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mooring.errors import Conflict, Forbidden, Invalid, NotFound
from mooring.row_limits import SHARE_LOCKS
from mooring.share.access import rule_rows
from mooring.share.locks import locks
from mooring.share.tables import ResourceLockRow, RuleRow, ShareRow

if TYPE_CHECKING:
    from mooring.share.locks.locks import Action, Kind
    from mooring.share.service import Asked
    from mooring.who import Who

_SHARE_ENDS = ("deleting", "error_deleting")
_RULE_ENDS = (rule_rows.QUEUED_TO_DENY, rule_rows.DENYING, rule_rows.ERROR)


class Changes(Struct, frozen=True, kw_only=True):
    """What PUT /resource-locks/{id} may change."""

    action: Action | UnsetType = UNSET
    reason: str | UnsetType | None = UNSET


def visible(tx: Session, who: Who, lock_id: str) -> ResourceLockRow:
    """Return the lock that this caller may see. Raises NotFound."""
    row = tx.get(ResourceLockRow, lock_id, populate_existing=True)
    sees_all = locks.context_of(who) in {"admin", "service"}
    if row is None or not (sees_all or row.project_id == who.project_id):
        raise NotFound(f"Resource lock {lock_id} could not be found.")
    return row


async def create(
    asked: Asked, kind: Kind, resource_id: str, action: Action, reason: str | None
) -> str:
    """Lock a thing, and return the lock's id."""

    def change(tx: Session) -> str:
        _check_thing(tx, asked.who, kind, resource_id)
        _check_action(tx, kind, resource_id, action)
        _check_room(tx, resource_id)
        now = asked.share.clock.now()
        new = locks.NewLock(
            kind=kind,
            resource_id=resource_id,
            action=action,
            who=asked.who,
            reason=reason,
            now=now,
        )
        return locks.add(tx, new).id

    return await asked.share.store.write(change)


def _check_room(tx: Session, resource_id: str) -> None:
    own = ResourceLockRow.resource_id == resource_id, ResourceLockRow.companion_of == ""
    query = select(func.count()).select_from(ResourceLockRow).where(*own)
    if tx.execute(query).scalar_one() >= SHARE_LOCKS:
        raise Invalid(
            f"{resource_id} has {SHARE_LOCKS} locks, and nothing has more. Nothing was locked; "
            "delete those that nobody needs."
        )


def _check_thing(tx: Session, who: Who, kind: Kind, resource_id: str) -> None:
    """Raise Invalid for what is not there, or not this caller's; Conflict when it is to go."""
    rule, share_id = None, resource_id
    if kind == "access_rule":
        # Whose it is, its share tells, just below.
        rule = tx.get(RuleRow, resource_id, populate_existing=True)
        share_id = "" if rule is None else rule.share_id
    # Whoever may not see it is told that there is none.
    share = tx.get(ShareRow, share_id, populate_existing=True)
    is_own = share is not None and share.project_id == who.project_id
    if share is None or not (is_own or locks.context_of(who) in {"admin", "service"}):
        raise Invalid(
            f"Invalid input received: There is no {kind.replace('_', ' ')} {resource_id[:64]}. "
            "Nothing was locked.",
        )
    status = share.status if rule is None else rule.state
    if status in (_SHARE_ENDS if rule is None else _RULE_ENDS):
        raise Conflict(
            f"Resource {resource_id} is {status} and cannot be locked. Nothing was changed.",
        )


def _check_action(tx: Session, kind: Kind, resource_id: str, action: Action) -> None:
    if action not in locks.ACTIONS[kind]:
        raise Invalid(
            f"Invalid input received: Of a {kind.replace('_', ' ')} only "
            f"{' and '.join(locks.ACTIONS[kind])} can be locked. Nothing was changed.",
        )
    if action == "show" and locks.of(tx, kind, resource_id, action):
        raise Conflict(
            f"Resource {resource_id} is locked already so that its client is not shown. Nothing "
            "was changed.",
        )


async def update(asked: Asked, lock_id: str, changes: Changes) -> None:
    """Change what is locked of a thing, or why."""

    def change(tx: Session) -> None:
        row = _own(tx, asked.who, lock_id)
        if changes.action is not UNSET and changes.action != row.resource_action:
            kind: Kind = "share" if row.resource_type == "share" else "access_rule"
            _check_action(tx, kind, row.resource_id, changes.action)
            _replace(tx, asked, row, kind, changes.action)
        if changes.reason is not UNSET:
            row.lock_reason = changes.reason
        row.updated_at = asked.share.clock.now()

    await asked.share.store.write(change)


def _replace(tx: Session, asked: Asked, row: ResourceLockRow, kind: Kind, action: Action) -> None:
    """Let a lock be about something else: its companion comes or goes with that."""
    locks.forget_companion(tx, row)
    row.resource_action = action
    tx.flush()
    if action == "delete":
        new = locks.NewLock(
            kind=kind,
            resource_id=row.resource_id,
            action=action,
            who=asked.who,
            reason=row.lock_reason,
            now=asked.share.clock.now(),
        )
        locks.add_companion(tx, new, row)


async def remove(asked: Asked, lock_id: str) -> None:
    """Unlock a thing."""
    await asked.share.store.write(lambda tx: locks.remove(tx, _own(tx, asked.who, lock_id)))


def _own(tx: Session, who: Who, lock_id: str) -> ResourceLockRow:
    row = visible(tx, who, lock_id)
    if not locks.may_touch(who, row):
        raise Forbidden(
            f"Resource lock {lock_id} was made in the context {row.lock_context} and is not yours "
            "to change. Nothing was changed.",
        )
    return row
