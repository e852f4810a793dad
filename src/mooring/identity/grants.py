"""Roles on scopes: given to users and to groups, and taken.

Source: facts/identity_image_placement.md 4.3 and 4.4.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import ColumnElement, delete, select

from mooring.errors import NotFound
from mooring.identity import losses, own, rows
from mooring.identity.tables import (
    DomainRow,
    GrantRow,
    GroupGrantRow,
    GroupRow,
    MemberRow,
    ProjectRow,
    RoleRow,
    UserRow,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session

USER, GROUP = "user", "group"


class Holder(Struct, frozen=True):
    """Who is given roles: a user, or all users of a group. `kind` is USER or GROUP."""

    kind: str
    id: str


class Grant(Struct, frozen=True):
    """One role that somebody has, or is to have, on a scope; `scope` as in the tables."""

    holder: Holder
    scope: str
    role_id: str


def give(tx: Session, grant: Grant) -> None:
    """Give a role on a scope; it may have been given already. Raises NotFound.

    Where it was taken while tokens of before may still come, these end: they would have it again.
    """
    _check(tx, grant)
    # Whoever may give roles may end what comes from them.
    losses.end_tokens(tx, *_words(grant), of=_users(tx, grant.holder))
    holder_id, scope, role_id = grant.holder.id, grant.scope, grant.role_id
    if grant.holder.kind == GROUP:
        tx.merge(GroupGrantRow(group_id=holder_id, scope=scope, role_id=role_id))
    else:
        tx.merge(GrantRow(user_id=holder_id, scope=scope, role_id=role_id))
    tx.flush()


def has(tx: Session, grant: Grant) -> bool:
    """Tell whether a role was given on a scope. Raises NotFound for what is not known at all."""
    _check(tx, grant)
    key = (grant.holder.id, grant.scope, grant.role_id)
    return tx.get(_table(grant.holder), key) is not None


def take(tx: Session, grant: Grant, *, until: datetime) -> None:
    """Take a role, and with it the application credentials that its holders have on that project.

    Raises NotFound when it was not given there, Forbidden where a service needs it.
    `until`: when every token of now is worth nothing any more. They lose the role at once.
    """
    if not has(tx, grant):
        raise unknown(grant)
    _refuse_taking(tx, grant)
    table = _table(grant.holder)
    tx.execute(
        delete(table).where(
            _is(grant.holder), table.scope == grant.scope, table.role_id == grant.role_id
        )
    )
    losses.remember(tx, *_words(grant), until=until)
    if grant.holder.kind == GROUP:
        losses.end_credentials_of_members(tx, grant.holder.id, grant.scope)
    else:
        losses.end_credentials_there(tx, grant.holder.id, grant.scope)


def held(tx: Session, holder: Holder, scope: str) -> list[RoleRow]:
    """Return the roles that somebody was given on a scope. Raises NotFound."""
    _check_holder(tx, holder)
    _check_scope(tx, scope)
    table = _table(holder)
    found = (
        select(RoleRow)
        .join(table, table.role_id == RoleRow.id)
        .where(_is(holder), table.scope == scope)
        .order_by(RoleRow.name)
    )
    return list(tx.scalars(found))


def forget_scope(tx: Session, scope: str) -> None:
    """Take all roles on a scope that goes away."""
    for table in (GrantRow, GroupGrantRow):
        tx.execute(delete(table).where(table.scope == scope))


def unknown(grant: Grant) -> NotFound:
    """Return the error for a role that was not given there."""
    holder = grant.holder
    return NotFound(
        f"Could not find role assignment with role: {grant.role_id}, {holder.kind}: {holder.id}."
    )


def _refuse_taking(tx: Session, grant: Grant) -> None:
    kind, _, place_id = grant.scope.partition(":")
    if grant.holder.kind == USER and kind == "project":
        own.refuse_taking(
            rows.find(tx, UserRow, USER, grant.holder.id),
            rows.find(tx, ProjectRow, kind, place_id),
            rows.find(tx, RoleRow, "role", grant.role_id),
        )


def _words(grant: Grant) -> tuple[str, ...]:
    return "role", grant.holder.kind, grant.holder.id, grant.scope, grant.role_id


def _users(tx: Session, holder: Holder) -> Sequence[str]:
    """Return the ids of all who have what a holder has."""
    if holder.kind == USER:
        return [holder.id]
    return tx.scalars(select(MemberRow.user_id).where(MemberRow.group_id == holder.id)).all()


def _table(holder: Holder) -> type[GrantRow | GroupGrantRow]:
    return GroupGrantRow if holder.kind == GROUP else GrantRow


def _is(holder: Holder) -> ColumnElement[bool]:
    column = GroupGrantRow.group_id if holder.kind == GROUP else GrantRow.user_id
    return column == holder.id


def _check(tx: Session, grant: Grant) -> None:
    _check_holder(tx, grant.holder)
    _check_scope(tx, grant.scope)
    rows.find(tx, RoleRow, "role", grant.role_id)


def _check_holder(tx: Session, holder: Holder) -> None:
    if holder.kind == GROUP:
        rows.find(tx, GroupRow, GROUP, holder.id)
    else:
        rows.find(tx, UserRow, USER, holder.id)


def _check_scope(tx: Session, scope: str) -> None:
    kind, _, place_id = scope.partition(":")
    if kind == "project":
        rows.find(tx, ProjectRow, kind, place_id)
    elif kind == "domain":
        rows.find(tx, DomainRow, kind, place_id)
