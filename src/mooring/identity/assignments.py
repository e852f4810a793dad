"""Who has which role where, as a list. Source: facts/identity_image_placement.md 4.2 and 4.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from sqlalchemy import select

from mooring.errors import Invalid
from mooring.identity import listing, standing
from mooring.identity.standing import SYSTEM, Place
from mooring.identity.tables import DomainRow, GrantRow, ProjectRow, RoleRow, UserRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session
    from starlette.datastructures import QueryParams

    from mooring.identity.service import Identity
    from mooring.web.api import Call


class Filter(Struct, frozen=True):
    """Which assignments; an empty text is no condition. `effective` adds the implied roles."""

    user_id: str = ""
    scope: str = ""
    role_id: str = ""
    effective: bool = False
    nothing: bool = False
    """Whether a condition was given that no assignment here meets."""


class Assignment(Struct, frozen=True):
    """One role of one user on one scope; `prior_role_id` when it is implied by another."""

    user: Place
    scope: str
    place: Place | None
    role: Place
    prior_role_id: str = ""


def read_filter(query: QueryParams) -> Filter:
    """Read the conditions of a query. Raises Invalid for more than one scope."""
    scopes = [
        f"{kind}:{query[key]}"
        for kind, key in (("project", "scope.project.id"), ("domain", "scope.domain.id"))
        if key in query
    ]
    if "scope.system" in query:
        scopes.append(SYSTEM)
    if len(scopes) > 1:
        raise Invalid("Ask for the assignments of one scope: a project, a domain or the system.")
    return Filter(
        user_id=query.get("user.id", ""),
        scope=scopes[0] if scopes else "",
        role_id=query.get("role.id", ""),
        effective=listing.is_true(query, "effective"),
        nothing="group.id" in query or "scope.OS-INHERIT:inherited_to" in query,
    )


def find(tx: Session, wanted: Filter) -> list[Assignment]:
    """Return the assignments that meet a filter, in the order of users and scopes."""
    if wanted.nothing:
        return []
    query = select(GrantRow.user_id, GrantRow.scope, GrantRow.role_id)
    if wanted.user_id:
        query = query.where(GrantRow.user_id == wanted.user_id)
    if wanted.scope:
        query = query.where(GrantRow.scope == wanted.scope)
    rows = tx.execute(query.order_by(GrantRow.user_id, GrantRow.scope, GrantRow.role_id)).all()
    users, places, roles = _places(tx, UserRow), _scopes(tx), _roles(tx)
    found: list[Assignment] = []
    for user_id, scope, role_id in rows:
        implied = standing.expand(tx, [role_id]) if wanted.effective else [role_id]
        found += [
            Assignment(
                users[user_id],
                scope,
                places.get(scope),
                roles[one],
                prior_role_id="" if one == role_id else role_id,
            )
            for one in implied
            if not wanted.role_id or one == wanted.role_id
        ]
    return found


def view(call: Call[Identity], assignment: Assignment, *, names: bool) -> dict[str, Any]:
    """Return an assignment as clients see it, with names when they asked for them."""
    kind, _, place_id = assignment.scope.partition(":")
    user, role = assignment.user, assignment.role
    where = "system" if assignment.scope == SYSTEM else f"{kind}s/{place_id}"
    granted = assignment.prior_role_id or role.id
    links = {"assignment": call.url(f"/{where}/users/{user.id}/roles/{granted}")}
    if assignment.prior_role_id:
        links["prior_role"] = call.url(f"/roles/{assignment.prior_role_id}")
    scope: dict[str, Any] = {"system": {"all": True}}
    if assignment.place is not None:
        scope = {kind: _reference(assignment.place, names=names)}
    return {
        "scope": scope,
        "user": _reference(user, names=names),
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


def _places(tx: Session, table: type[UserRow | ProjectRow]) -> dict[str, Place]:
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
