"""Resource locks: they keep a share or rule from being deleted, or a rule's client from being read.

A rule that is locked against deletion locks its share too, by a companion of the rule's lock: both
go when the rule does. Source: facts/shared_file_systems.md 5.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from msgspec import Struct
from sqlalchemy import delete, or_, select
from sqlalchemy.orm import Session

from mooring.errors import Forbidden
from mooring.share.tables import ResourceLockRow, RuleRow

if TYPE_CHECKING:
    from mooring.who import Who

Kind = Literal["share", "access_rule"]
Action = Literal["delete", "show"]
Context = Literal["user", "service", "admin"]
ACTIONS: dict[Kind, tuple[Action, ...]] = {"share": ("delete",), "access_rule": ("delete", "show")}
"""What can be locked of each kind of thing."""


class NewLock(Struct, frozen=True, kw_only=True):
    """What is to be locked, by whom, and why."""

    kind: Kind
    resource_id: str
    action: Action
    who: Who
    reason: str | None
    now: datetime


def context_of(who: Who) -> Context:
    """Return in which capacity somebody locks: as a service, an administrator or a user.

    Only a valid service token makes a service, never a role of the user's own token.
    """
    if who.service_roles:
        return "service"
    return "admin" if who.is_admin else "user"


def may_touch(who: Who, lock: ResourceLockRow) -> bool:
    """Whether somebody may change or remove a lock, or see through it."""
    mine = context_of(who)
    if mine == "admin":
        return True
    if lock.lock_context == "user":
        own = (lock.user_id, lock.project_id) == (who.user_id, who.project_id)
        return mine == "service" or own
    return mine == lock.lock_context == "service"


def add(tx: Session, new: NewLock, *, companion_of: str = "") -> ResourceLockRow:
    """Write a lock down; for the deletion of a rule also the companion that locks its share."""
    row = ResourceLockRow(
        id=str(uuid.uuid4()),
        user_id=new.who.user_id,
        project_id=new.who.project_id,
        lock_context=context_of(new.who),
        resource_type=new.kind,
        resource_id=new.resource_id,
        resource_action=new.action,
        lock_reason=new.reason,
        companion_of=companion_of,
        created_at=new.now,
    )
    tx.add(row)
    tx.flush()
    if (new.kind, new.action) == ("access_rule", "delete"):
        add_companion(tx, new, row)
    return row


def add_companion(tx: Session, new: NewLock, lock: ResourceLockRow) -> None:
    """Lock the share of a rule that is locked against deletion."""
    query = select(RuleRow.share_id).where(RuleRow.id == new.resource_id)
    companion = NewLock(
        kind="share",
        resource_id=tx.execute(query).scalar_one(),
        action="delete",
        who=new.who,
        reason=f"Placed with lock {lock.id} of access rule {new.resource_id}.",
        now=new.now,
    )
    add(tx, companion, companion_of=lock.id)


def of(tx: Session, kind: Kind, resource_id: str, action: Action) -> list[ResourceLockRow]:
    """Return the locks of a thing, oldest first."""
    query = select(ResourceLockRow).where(
        ResourceLockRow.resource_type == kind,
        ResourceLockRow.resource_id == resource_id,
        ResourceLockRow.resource_action == action,
    )
    in_order = query.order_by(ResourceLockRow.created_at, ResourceLockRow.id)
    return list(tx.execute(in_order).scalars())


def require_none(tx: Session, kind: Kind, resource_id: str) -> None:
    """Raise Forbidden, which names the locks, while a thing is locked against deletion."""
    found = of(tx, kind, resource_id, "delete")
    if found:
        reasons = dict.fromkeys(f'"{lock.lock_reason}"' for lock in found if lock.lock_reason)
        said = f" ({', '.join(reasons)})" if reasons else ""
        raise Forbidden(
            f"Resource lock/s [{', '.join(lock.id for lock in found)}] prevent delete action: "
            f"{kind.replace('_', ' ')} {resource_id} is locked{said}. Nothing was changed; whoever "
            "made them has to remove them first.",
        )


def require_unrestricted(tx: Session, who: Who, rule_id: str, *, unrestrict: bool) -> None:
    """Raise Forbidden while a rule is locked against deletion, unless who asks may pass over it."""
    if not unrestrict:
        require_none(tx, "access_rule", rule_id)
    strange = [
        lock.id for lock in of(tx, "access_rule", rule_id, "delete") if not may_touch(who, lock)
    ]
    if strange:
        raise Forbidden(
            f"Unable to drop access rule {rule_id}: resource lock/s [{', '.join(strange)}] are not "
            "yours to pass over. Nothing was changed.",
        )


def find_hidden(tx: Session, who: Who, rule_ids: Collection[str]) -> frozenset[str]:
    """Return which of some rules do not show their client to somebody."""
    query = select(ResourceLockRow).where(
        ResourceLockRow.resource_id.in_(rule_ids), ResourceLockRow.resource_action == "show"
    )
    found = tx.execute(query).scalars()
    return frozenset(lock.resource_id for lock in found if not may_touch(who, lock))


def remove(tx: Session, lock: ResourceLockRow) -> None:
    """Remove a lock, and its companion."""
    forget_companion(tx, lock)
    tx.delete(lock)


def forget_companion(tx: Session, lock: ResourceLockRow) -> None:
    """Remove what locks the share of a rule along with it."""
    tx.execute(delete(ResourceLockRow).where(ResourceLockRow.companion_of == lock.id))


def forget(tx: Session, resource_ids: Iterable[str]) -> None:
    """Remove all locks of things that are gone, and their companions."""
    ids = list(resource_ids)
    mine = select(ResourceLockRow.id).where(ResourceLockRow.resource_id.in_(ids))
    tx.execute(
        delete(ResourceLockRow).where(
            or_(ResourceLockRow.resource_id.in_(ids), ResourceLockRow.companion_of.in_(mine))
        )
    )
