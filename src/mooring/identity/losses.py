"""What users lose, and what must not come back when it is given again.

A token has the roles that its user has at the moment, so what is taken goes from all of them at
once. What is given again would come back to those of before: their user meant them to end. That
something was taken is remembered for as long as tokens of before may come.

What goes with a group or a role that is deleted can only be given again in another way, which
nothing remembers: one statement ends all tokens of those who had it, at once.

Application credentials may have no end of their own, so they are deleted at once, as Keystone does:
all of a disabled user's; all that a user has on a project, when any role there is taken from it. A
credential stands for a user's roles on one project, so roles on domains and the system end none.
Whatever a group has lost, one statement deletes what its users had by that: none of them is loaded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Text, delete, exists, false, literal, or_, select, type_coerce, update
from sqlalchemy.orm import aliased

from mooring.identity.tables import (
    ApplicationCredentialRow,
    GrantRow,
    GroupGrantRow,
    GroupRow,
    MemberRow,
    RevocationRow,
    UserRow,
)

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.orm import Session

_ON_PROJECT = "project:"
_SCOPE = literal(_ON_PROJECT) + ApplicationCredentialRow.project_id
"""Where an application credential stands, as the grants name it."""


def remember(tx: Session, *what: str, until: datetime) -> None:
    """Remember that something was taken, until no token of now is worth anything any more."""
    tx.merge(RevocationRow(audit_id=_name(what), forget_at=until))


def forget(tx: Session, *what: str) -> bool:
    """Forget that something was taken; tell whether tokens of before may still come.

    These are to end, as it is given again.
    """
    # By a name that the caller made of what is given, and who may give that was asked before.
    taken = tx.get(RevocationRow, _name(what))
    if taken is None:
        return False
    tx.delete(taken)
    return True


def end_tokens(tx: Session, *what: str, of: Collection[str]) -> None:
    """End all tokens of the users who are given again what was taken from them."""
    if forget(tx, *what):
        _end_tokens(tx, of)


def end_tokens_by_groups(tx: Session, groups: Select[str]) -> None:
    """End all tokens of the users of groups that go, where one loses a role by that.

    Called while the groups still have their users and their roles.
    """
    others, members = aliased(GroupGrantRow), aliased(MemberRow)
    given = (GroupGrantRow.scope, GroupGrantRow.role_id)
    own = exists().where(
        GrantRow.user_id == MemberRow.user_id,
        GrantRow.scope == given[0],
        GrantRow.role_id == given[1],
    )
    by_another = exists().where(
        members.user_id == MemberRow.user_id,
        members.group_id == others.group_id,
        others.group_id.not_in(groups),
        others.scope == given[0],
        others.role_id == given[1],
    )
    losers = (
        select(MemberRow.user_id)
        .join(GroupGrantRow, GroupGrantRow.group_id == MemberRow.group_id)
        .where(MemberRow.group_id.in_(groups), ~own, ~by_another)
    )
    _end_tokens(tx, losers)


def end_tokens_by_roles(tx: Session, role_ids: Collection[str]) -> None:
    """End all tokens of those who have one of these roles anywhere, also by a group."""
    given = GroupGrantRow.role_id.in_(role_ids)
    by_group = select(MemberRow.user_id).join(
        GroupGrantRow, GroupGrantRow.group_id == MemberRow.group_id
    )
    own = select(GrantRow.user_id).where(GrantRow.role_id.in_(role_ids))
    _end_tokens(tx, own, by_group.where(given))


def end_credentials_of_user(tx: Session, user_id: str) -> None:
    """Delete all application credentials of a user."""
    _delete(tx, ApplicationCredentialRow.user_id == user_id)


def end_credentials_there(tx: Session, user_id: str, scope: str) -> None:
    """Delete the application credentials of a user who has lost a role on a scope."""
    _delete(tx, ApplicationCredentialRow.user_id == user_id, _stands_on(scope))


def end_credentials_of_members(tx: Session, group_id: str, scope: str) -> None:
    """Delete what all users of a group have on a scope where it has lost a role."""
    members = select(MemberRow.user_id).where(MemberRow.group_id == group_id)
    _delete(tx, ApplicationCredentialRow.user_id.in_(members), _stands_on(scope))


def end_credentials_by_group(tx: Session, group_id: str, *users: str) -> None:
    """Delete what users of a group have where it was given roles: these users, or all of them.

    Called while the group still has its users and its roles.
    """
    members = select(MemberRow.user_id).where(MemberRow.group_id == group_id)
    places = select(GroupGrantRow.scope).where(GroupGrantRow.group_id == group_id)
    whose = ApplicationCredentialRow.user_id
    _delete(tx, whose.in_(users or members), _SCOPE.in_(places))


def end_credentials_by_groups_of(tx: Session, domain_id: str) -> None:
    """Do the same for all groups of a domain: their users may be of others."""
    of_domain = select(GroupRow.id).where(GroupRow.domain_id == domain_id)
    _delete(tx, _given_by_group(GroupGrantRow.group_id.in_(of_domain)))


def end_credentials_of_role(tx: Session, role_id: str) -> None:
    """Delete what stands for a role that goes, and all of its holders where they have it.

    The latter may have other roles by it, which another one could give them again. Called while it
    is still given.
    """
    given = exists().where(
        GrantRow.user_id == ApplicationCredentialRow.user_id,
        GrantRow.scope == _SCOPE,
        GrantRow.role_id == role_id,
    )
    named = type_coerce(ApplicationCredentialRow.role_ids, Text).contains(
        f'"{role_id}"', autoescape=True
    )
    _delete(tx, or_(named, given, _given_by_group(GroupGrantRow.role_id == role_id)))


def _stands_on(scope: str) -> ColumnElement[bool]:
    """Tell of a credential whether it stands on a scope; none does on a domain or the system."""
    kind, _, project_id = scope.partition(":")
    if f"{kind}:" != _ON_PROJECT:
        return false()
    return ApplicationCredentialRow.project_id == project_id


def _given_by_group(condition: ColumnElement[bool]) -> ColumnElement[bool]:
    """Tell of a credential whether its user has, by a group, what meets a condition there."""
    return exists().where(
        MemberRow.user_id == ApplicationCredentialRow.user_id,
        MemberRow.group_id == GroupGrantRow.group_id,
        GroupGrantRow.scope == _SCOPE,
        condition,
    )


def _end_tokens(tx: Session, *whose: Collection[str] | Select[str]) -> None:
    """End all tokens of users, given by their ids or by what selects these."""
    tx.execute(
        update(UserRow)
        .where(or_(*(UserRow.id.in_(ids) for ids in whose)))
        .values(token_generation=UserRow.token_generation + 1)
    )


def _delete(tx: Session, *conditions: ColumnElement[bool]) -> None:
    tx.execute(
        delete(ApplicationCredentialRow).where(*conditions),
        execution_options={"synchronize_session": False},
    )


def _name(what: tuple[str, ...]) -> str:
    """Return what stands for it among the tokens that were ended: no audit id has colons."""
    return ":".join(what)
