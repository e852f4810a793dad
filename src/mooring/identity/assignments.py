"""Who has which role where, as a list. Source: facts/identity_image_placement.md 4.2 and 4.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from sqlalchemy import select

from mooring.errors import Invalid
from mooring.identity import listing, standing
from mooring.identity.grants import GROUP, USER
from mooring.identity.standing import SYSTEM, Place
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
    from sqlalchemy.orm import Session
    from starlette.datastructures import QueryParams

    from mooring.identity.service import Identity
    from mooring.web.api import Call


class Filter(Struct, frozen=True):
    """Which assignments; an empty text is no condition.

    `effective` adds the implied roles, and has the users of a group in the place of the group.
    """

    user_id: str = ""
    group_id: str = ""
    scope: str = ""
    role_id: str = ""
    effective: bool = False
    nothing: bool = False
    """Whether a condition was given that no assignment here meets."""


class Assignment(Struct, frozen=True):
    """One role of one user or group (`kind`) on one scope.

    `prior_role_id` when it is implied by another, `group_id` when a user has it by that group.
    """

    kind: str
    holder: Place
    scope: str
    place: Place | None
    role: Place
    prior_role_id: str = ""
    group_id: str = ""


class _Given(Struct, frozen=True):
    """A role as it was given: to a user, alone or by a group, or to a group."""

    kind: str
    holder_id: str
    scope: str
    role_id: str
    group_id: str = ""


def read_filter(query: QueryParams) -> Filter:
    """Read the conditions of a query.

    Raises Invalid for more than one scope, and for groups among effective assignments.
    """
    scopes = [
        f"{kind}:{query[key]}"
        for kind, key in (("project", "scope.project.id"), ("domain", "scope.domain.id"))
        if key in query
    ]
    if "scope.system" in query:
        scopes.append(SYSTEM)
    if len(scopes) > 1:
        raise Invalid("Ask for the assignments of one scope: a project, a domain or the system.")
    effective = listing.is_true(query, "effective")
    if effective and "group.id" in query:
        raise Invalid(
            "Effective assignments are those of users, also by their groups. Ask without effective "
            "for what a group was given."
        )
    return Filter(
        user_id=query.get("user.id", ""),
        group_id=query.get("group.id", ""),
        scope=scopes[0] if scopes else "",
        role_id=query.get("role.id", ""),
        effective=effective,
        nothing="scope.OS-INHERIT:inherited_to" in query
        or ("user.id" in query and "group.id" in query),
    )


def find(tx: Session, wanted: Filter) -> list[Assignment]:
    """Return the assignments that meet a filter: users' before groups', in the order of scopes."""
    if wanted.nothing:
        return []
    given = [] if wanted.group_id else _of_users(tx, wanted)
    if not wanted.user_id or wanted.effective:
        given += _of_groups(tx, wanted)
    holders = {USER: _places(tx, UserRow), GROUP: _places(tx, GroupRow)}
    places, roles = _scopes(tx), _roles(tx)
    found: list[Assignment] = []
    for one in given:
        implied = standing.expand(tx, [one.role_id]) if wanted.effective else [one.role_id]
        found += [
            Assignment(
                one.kind,
                holders[one.kind][one.holder_id],
                one.scope,
                places.get(one.scope),
                roles[role_id],
                prior_role_id="" if role_id == one.role_id else one.role_id,
                group_id=one.group_id,
            )
            for role_id in implied
            if not wanted.role_id or role_id == wanted.role_id
        ]
    return found


def _of_users(tx: Session, wanted: Filter) -> list[_Given]:
    query = select(GrantRow.user_id, GrantRow.scope, GrantRow.role_id)
    if wanted.user_id:
        query = query.where(GrantRow.user_id == wanted.user_id)
    if wanted.scope:
        query = query.where(GrantRow.scope == wanted.scope)
    rows = tx.execute(query.order_by(GrantRow.user_id, GrantRow.scope, GrantRow.role_id)).all()
    return [_Given(USER, *row) for row in rows]


def _of_groups(tx: Session, wanted: Filter) -> list[_Given]:
    """Return what groups were given; with `effective` what their users have by it."""
    table = GroupGrantRow
    query = select(table.group_id, table.scope, table.role_id)
    if wanted.group_id:
        query = query.where(table.group_id == wanted.group_id)
    if wanted.scope:
        query = query.where(table.scope == wanted.scope)
    query = query.order_by(table.group_id, table.scope, table.role_id)
    if not wanted.effective:
        return [_Given(GROUP, *row) for row in tx.execute(query)]
    members = query.join(MemberRow, MemberRow.group_id == table.group_id)
    if wanted.user_id:
        members = members.where(MemberRow.user_id == wanted.user_id)
    return [
        _Given(USER, user_id, scope, role_id, group_id)
        for group_id, scope, role_id, user_id in tx.execute(members.add_columns(MemberRow.user_id))
    ]


def view(call: Call[Identity], assignment: Assignment, *, names: bool) -> dict[str, Any]:
    """Return an assignment as clients see it, with names when they asked for them."""
    kind, _, place_id = assignment.scope.partition(":")
    holder, role = assignment.holder, assignment.role
    where = "system" if assignment.scope == SYSTEM else f"{kind}s/{place_id}"
    whose = f"{assignment.kind}s/{holder.id}"
    links: dict[str, str] = {}
    if assignment.group_id:
        whose = f"groups/{assignment.group_id}"
        links["membership"] = call.url(f"/groups/{assignment.group_id}/users/{holder.id}")
    granted = assignment.prior_role_id or role.id
    links["assignment"] = call.url(f"/{where}/{whose}/roles/{granted}")
    if assignment.prior_role_id:
        links["prior_role"] = call.url(f"/roles/{assignment.prior_role_id}")
    scope: dict[str, Any] = {"system": {"all": True}}
    if assignment.place is not None:
        scope = {kind: _reference(assignment.place, names=names)}
    return {
        "scope": scope,
        assignment.kind: _reference(holder, names=names),
        "role": _reference(role, names=names),
        "links": links,
    }


def _reference(place: Place, *, names: bool) -> dict[str, Any]:
    if not names:
        return {"id": place.id}
    shown: dict[str, Any] = {"id": place.id, "name": place.name}
    if place.domain_id:
        shown["domain"] = {"id": place.domain_id, "name": place.domain_name}
    return shown


def _places(tx: Session, table: type[UserRow | GroupRow | ProjectRow]) -> dict[str, Place]:
    rows = tx.execute(
        select(table.id, table.name, DomainRow.id, DomainRow.name).join(
            DomainRow, DomainRow.id == table.domain_id
        )
    )
    return {row[0]: Place(row[0], row[1], row[2], row[3]) for row in rows}


def _scopes(tx: Session) -> dict[str, Place]:
    found = {f"project:{key}": place for key, place in _places(tx, ProjectRow).items()}
    for domain in tx.scalars(select(DomainRow)):
        found[f"domain:{domain.id}"] = Place(domain.id, domain.name)
    return found


def _roles(tx: Session) -> dict[str, Place]:
    return {row[0]: Place(row[0], row[1]) for row in tx.execute(select(RoleRow.id, RoleRow.name))}
