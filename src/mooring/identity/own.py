"""What the cloud's own services log in with: users, their project, and what they have there.

Without any of it the services answer each other no more, so nobody takes it away. All is known by
its name, in the domain that every cloud has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from mooring.errors import Forbidden
from mooring.identity.tables import GrantRow, ProjectRow, RoleRow, UserRow
from mooring.store.prepared import Among

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.orm import Session

DOMAIN_ID = "default"
SERVICE_PROJECT = "service"
SERVICE_USERS: tuple[str, ...] = ("compute", "volume", "image", "placement", "share")
SERVICE_ROLES = ("admin", "service")
"""What each of the users has on the project."""

_has: Among[tuple[str, str]] = Among(
    lambda names: (
        select(UserRow.name, RoleRow.name)
        .join(GrantRow, GrantRow.user_id == UserRow.id)
        .join(RoleRow, RoleRow.id == GrantRow.role_id)
        .join(ProjectRow, GrantRow.scope == "project:" + ProjectRow.id)
        .where(UserRow.domain_id == DOMAIN_ID, UserRow.name.in_(names), UserRow.enabled)
        .where(
            ProjectRow.domain_id == DOMAIN_ID,
            ProjectRow.name == SERVICE_PROJECT,
            ProjectRow.enabled,
        )
    )
)
_USED = {
    ProjectRow: ("Project", "the cloud's own services work in it"),
    UserRow: ("User", "one of the cloud's own services works as it"),
    RoleRow: ("Role", "the cloud's own services have it"),
}


def may_work(tx: Session) -> bool:
    """Tell whether every service's user is enabled and has its roles, on an enabled project."""
    found = set(_has.all(tx, SERVICE_USERS))
    return found >= {(user, role) for user in SERVICE_USERS for role in SERVICE_ROLES}


def refuse_removal(row: ProjectRow | RoleRow | UserRow) -> None:
    """Raise Forbidden where a row that is to be deleted is the services'."""
    _refuse(row, "deleted")


def refuse_changes(row: ProjectRow | RoleRow | UserRow, given: Mapping[str, Any]) -> None:
    """Raise Forbidden where a change renames or disables what is the services'.

    Nor has a service's user another password than the one that the cloud keeps for it.
    """
    if given.get("name", row.name) != row.name:
        _refuse(row, "renamed")
    if given.get("enabled") is False:
        _refuse(row, "disabled")
    if "password" in given:
        _refuse(row, "given another password")


def refuse_taking(user: UserRow, project: ProjectRow, role: RoleRow) -> None:
    """Raise Forbidden where a role that is to be taken is one that a service works with."""
    if all(_is_own(row) for row in (user, project, role)):
        raise Forbidden(
            f"Role '{role.name}' cannot be taken from user '{user.name}' on project "
            f"'{project.name}': one of the cloud's own services works with it. Nothing was changed."
        )


def _refuse(row: ProjectRow | RoleRow | UserRow, what: str) -> None:
    if _is_own(row):
        kind, why = _USED[type(row)]
        raise Forbidden(f"{kind} '{row.name}' cannot be {what}: {why}. Nothing was changed.")


def _is_own(row: ProjectRow | RoleRow | UserRow) -> bool:
    if isinstance(row, RoleRow):
        return row.name in SERVICE_ROLES
    names = SERVICE_USERS if isinstance(row, UserRow) else (SERVICE_PROJECT,)
    return row.domain_id == DOMAIN_ID and row.name in names
