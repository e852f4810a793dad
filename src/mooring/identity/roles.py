"""Roles, and who has which where. Source: facts/identity_image_placement.md 4.4 and 5.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import delete, or_, select

from mooring.errors import Conflict, Forbidden, NotFound
from mooring.identity import bodies, projects, rows, users
from mooring.identity.tables import GrantRow, ImplicationRow, RevocationRow, RoleRow

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"\S")]


class Options(Struct, frozen=True):
    """The options of a role."""

    immutable: bool | None = None


class NewRole(Struct, frozen=True):
    """What to make."""

    name: Name
    description: str | None = None
    options: Options = Options()
    domain_id: str | None = None


class RoleChange(Struct, frozen=True):
    """What to change."""

    name: Name | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    options: Options | UnsetType = UNSET


def find(tx: Session, role_id: str) -> RoleRow:
    """Return a role. Raises NotFound."""
    return rows.find(tx, RoleRow, "role", role_id)


def create(tx: Session, new: NewRole, extra: dict[str, Any]) -> RoleRow:
    """Make a role. Raises Conflict."""
    if new.domain_id is not None:
        raise Conflict("Roles belong to no domain here. Leave domain_id out.")
    _refuse_taken(tx, new.name)
    return rows.keep(
        tx,
        RoleRow(
            id=bodies.new_id(),
            name=new.name,
            description=new.description,
            immutable=bool(new.options.immutable),
            extra=extra,
        ),
    )


def change(tx: Session, role_id: str, changes: RoleChange, extra: dict[str, Any]) -> RoleRow:
    """Change a role. Raises NotFound, Conflict, Forbidden for an immutable one."""
    row = find(tx, role_id)
    given = bodies.given(changes)
    options: Options = given.pop("options", Options())
    if row.immutable and options.immutable is not False:
        raise _immutable(row)
    if given.get("name", row.name) != row.name:
        _refuse_taken(tx, given["name"])
    if options.immutable is not None:
        given["immutable"] = options.immutable
    return rows.change(tx, row, given, extra)


def remove(tx: Session, role_id: str) -> None:
    """Delete a role with its grants. Raises NotFound, Forbidden for an immutable one."""
    row = find(tx, role_id)
    if row.immutable:
        raise _immutable(row)
    tx.execute(delete(GrantRow).where(GrantRow.role_id == role_id))
    tx.execute(
        delete(ImplicationRow).where(
            or_(ImplicationRow.prior_role_id == role_id, ImplicationRow.implied_role_id == role_id)
        )
    )
    rows.remove(tx, row)


def check_scope(tx: Session, scope: str) -> None:
    """Raise NotFound unless the project or domain of a scope exists."""
    kind, _, place_id = scope.partition(":")
    if kind == "project":
        projects.find(tx, place_id)
    elif kind == "domain":
        projects.find_domain(tx, place_id)


def grant(tx: Session, user_id: str, scope: str, role_id: str) -> None:
    """Give a user a role on a scope; it may have it already. Raises NotFound.

    Where it was taken while tokens of before still may come, these end: they would have it again.
    """
    user = users.find(tx, user_id)
    check_scope(tx, scope)
    find(tx, role_id)
    # Whoever may give roles may end what comes from them.
    taken = tx.get(RevocationRow, _taken(user_id, scope, role_id))
    if taken is not None:
        user.token_generation += 1
        tx.delete(taken)
    tx.merge(GrantRow(user_id=user_id, scope=scope, role_id=role_id))
    tx.flush()


def has(tx: Session, user_id: str, scope: str, role_id: str) -> bool:
    """Tell whether a user was given a role on a scope. Raises NotFound for an unknown name."""
    users.find(tx, user_id)
    check_scope(tx, scope)
    find(tx, role_id)
    return tx.get(GrantRow, (user_id, scope, role_id)) is not None


def take(tx: Session, user_id: str, scope: str, role_id: str, *, until: datetime) -> None:
    """Take a role from a user. Raises NotFound when the user does not have it there.

    `until`: when every token of now is worth nothing any more. They lose the role at once.
    """
    if not has(tx, user_id, scope, role_id):
        raise unknown_grant(user_id, role_id)
    tx.execute(
        delete(GrantRow).where(
            GrantRow.user_id == user_id, GrantRow.scope == scope, GrantRow.role_id == role_id
        )
    )
    tx.merge(RevocationRow(audit_id=_taken(user_id, scope, role_id), forget_at=until))


def _taken(user_id: str, scope: str, role_id: str) -> str:
    """Return what stands for a role that was taken among what was ended: no audit id has colons."""
    return f"role:{user_id}:{scope}:{role_id}"


def unknown_grant(user_id: str, role_id: str) -> NotFound:
    """Return the error for a role that a user was not given there."""
    return NotFound(f"Could not find role assignment with role: {role_id}, user: {user_id}.")


def granted(tx: Session, user_id: str, scope: str) -> list[RoleRow]:
    """Return the roles that a user was given on a scope. Raises NotFound."""
    users.find(tx, user_id)
    check_scope(tx, scope)
    rows = (
        select(RoleRow)
        .join(GrantRow, GrantRow.role_id == RoleRow.id)
        .where(GrantRow.user_id == user_id, GrantRow.scope == scope)
        .order_by(RoleRow.name)
    )
    return list(tx.scalars(rows))


def _immutable(row: RoleRow) -> Forbidden:
    return Forbidden(
        f"The role '{row.name}' is immutable. Set its option immutable to false first."
    )


def _refuse_taken(tx: Session, name: str) -> None:
    if tx.scalar(select(RoleRow.id).where(RoleRow.name == name)) is not None:
        raise Conflict(f"Conflict occurred attempting to store role: '{name}' exists already.")
