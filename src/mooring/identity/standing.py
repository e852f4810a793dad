"""What a user may do where, now: roles on a scope, and whether user and scope still serve.

Source: facts/identity_image_placement.md 2.4, 2.5 and 5.1.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import bindparam, select

from mooring.errors import Unauthenticated
from mooring.identity.tables import (
    ApplicationCredentialRow,
    DomainRow,
    GrantRow,
    GroupGrantRow,
    ImplicationRow,
    MemberRow,
    ProjectRow,
    RoleRow,
    UserRow,
)
from mooring.store.prepared import Prepared

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

_implications: Prepared[tuple[str, str]] = Prepared(
    select(ImplicationRow.prior_role_id, ImplicationRow.implied_role_id)
)
_names: Prepared[tuple[str, str]] = Prepared(select(RoleRow.id, RoleRow.name))
_own_roles: Prepared[str] = Prepared(
    select(GrantRow.role_id).where(
        GrantRow.user_id == bindparam("of_user"), GrantRow.scope == bindparam("of_scope")
    ),
    str,
)
_group_roles: Prepared[str] = Prepared(
    select(GroupGrantRow.role_id)
    .join(MemberRow, MemberRow.group_id == GroupGrantRow.group_id)
    .where(MemberRow.user_id == bindparam("of_user"), GroupGrantRow.scope == bindparam("of_scope")),
    str,
)
_users: Prepared[tuple[str, bool, str, str, bool]] = Prepared(
    select(UserRow.name, UserRow.enabled, DomainRow.id, DomainRow.name, DomainRow.enabled)
    .join(DomainRow, DomainRow.id == UserRow.domain_id)
    .where(UserRow.id == bindparam("of_user"))
)
_projects: Prepared[tuple[str, bool, str, str, bool, int]] = Prepared(
    select(
        ProjectRow.name,
        ProjectRow.enabled,
        DomainRow.id,
        DomainRow.name,
        DomainRow.enabled,
        ProjectRow.token_generation,
    )
    .join(DomainRow, DomainRow.id == ProjectRow.domain_id)
    .where(ProjectRow.id == bindparam("of_project"))
)
SYSTEM = "system:all"
INVALID = "The request you have made requires authentication."
"""What everybody hears whose token or password does not do, whatever the reason."""


class Place(Struct, frozen=True):
    """A user, project or domain with its name, and its domain's.

    `generation` counts how often all tokens of a project or domain have been ended.
    """

    id: str
    name: str
    domain_id: str = ""
    domain_name: str = ""
    generation: int = 0


class Credential(Struct, frozen=True):
    """The application credential that a token was made from."""

    id: str
    name: str
    unrestricted: bool


class Standing(Struct, frozen=True):
    """Who somebody is on a scope. `scope` is as in the grants, empty for none; `place` is where."""

    user: Place
    scope: str
    place: Place | None
    roles: tuple[tuple[str, str], ...]
    """Ids and names, implied roles included."""
    credential: Credential | None = None


def find(
    tx: Session, user_id: str, scope: str, *, credential_id: str = "", now: datetime
) -> Standing:
    """Return what a user has on a scope. Raises Unauthenticated when that is nothing any more."""
    user = _user(tx, user_id)
    place = _place(tx, scope)
    held = expand(tx, _granted(tx, user_id, scope)) if scope else {}
    credential = None
    if credential_id:
        credential, held = _narrow(tx, credential_id, user_id, held, now)
    if scope and not held:
        raise Unauthenticated(INVALID, private=f"user {user_id} has no role on {scope}")
    return Standing(user, scope, place, tuple(sorted(held.items())), credential)


def expand(tx: Session, role_ids: Iterable[str]) -> dict[str, str]:
    """Return ids and names of roles and all that they imply."""
    implied: dict[str, list[str]] = {}
    for prior, then in _implications.all(tx):
        implied.setdefault(prior, []).append(then)
    names = dict(_names.all(tx))
    found: dict[str, str] = {}
    waiting = list(role_ids)
    while waiting:
        role_id = waiting.pop()
        if role_id not in found and role_id in names:
            found[role_id] = names[role_id]
            waiting += implied.get(role_id, [])
    return found


def scopes(tx: Session, user_id: str, kind: str) -> list[str]:
    """Return the ids of the projects (or domains, or `all`) on which a user has a role."""
    prefix = f"{kind}:"
    own = select(GrantRow.scope).where(
        GrantRow.user_id == user_id, GrantRow.scope.startswith(prefix)
    )
    by_group = (
        select(GroupGrantRow.scope)
        .join(MemberRow, MemberRow.group_id == GroupGrantRow.group_id)
        .where(MemberRow.user_id == user_id, GroupGrantRow.scope.startswith(prefix))
    )
    found = {*tx.scalars(own), *tx.scalars(by_group)}
    return sorted(scope.partition(":")[2] for scope in found)


def _granted(tx: Session, user_id: str, scope: str) -> list[str]:
    given = {"of_user": user_id, "of_scope": scope}
    return [*_own_roles.all(tx, **given), *_group_roles.all(tx, **given)]


def _user(tx: Session, user_id: str) -> Place:
    row = _users.first(tx, of_user=user_id)
    if row is None or not row[1] or not row[4]:
        raise Unauthenticated(INVALID, private=f"user {user_id} is gone or disabled")
    return Place(user_id, row[0], row[2], row[3])


def _place(tx: Session, scope: str) -> Place | None:
    kind, _, place_id = scope.partition(":")
    if kind == "project":
        row = _projects.first(tx, of_project=place_id)
        if row is not None and row[1] and row[4]:
            return Place(place_id, row[0], row[2], row[3], row[5])
    elif kind == "domain":
        # Whoever asks names it as the scope of its own login.
        domain = tx.get(DomainRow, place_id)
        if domain is not None and domain.enabled:
            return Place(domain.id, domain.name, generation=domain.token_generation)
    else:
        return None
    raise Unauthenticated(INVALID, private=f"{scope} is gone or disabled")


def _narrow(
    tx: Session, credential_id: str, user_id: str, held: dict[str, str], now: datetime
) -> tuple[Credential, dict[str, str]]:
    # Whoever asks has shown its secret, or a token that was made from it.
    row = tx.get(ApplicationCredentialRow, credential_id)
    if row is None or row.user_id != user_id or (row.expires_at and row.expires_at <= now):
        raise Unauthenticated(INVALID, private=f"application credential {credential_id} is over")
    if not held.keys() >= set(row.role_ids):
        raise Unauthenticated(
            INVALID, private=f"user {user_id} lost a role of application credential {credential_id}"
        )
    roles = {role_id: held[role_id] for role_id in row.role_ids}
    return Credential(row.id, row.name, row.unrestricted), roles
