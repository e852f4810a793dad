"""Roles, and who has which where. Source: facts/identity_image_placement.md 4.4 and 5.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import delete, or_, select

from mooring.errors import Conflict, Forbidden
from mooring.identity import bodies, losses, own, rows
from mooring.identity.tables import GrantRow, GroupGrantRow, ImplicationRow, RoleRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

ADMIN = "admin"
"""The role that rules the cloud, whatever the case of its letters."""
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
    rows.refuse_taken(tx, RoleRow, "role", new.name)
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
    """Change a role.

    Raises NotFound, Conflict, Forbidden for an immutable one and to rename one of our services.
    """
    row = find(tx, role_id)
    given = bodies.given(changes)
    own.refuse_changes(row, given)
    options: Options = given.pop("options", Options())
    if row.immutable and options.immutable is not False:
        raise _immutable(row)
    if given.get("name", row.name) != row.name:
        rows.refuse_taken(tx, RoleRow, "role", given["name"])
        _refuse_ruling(tx, role_id, given["name"])
    if options.immutable is not None:
        given["immutable"] = options.immutable
    return rows.change(tx, row, given, extra)


def remove(tx: Session, role_id: str) -> None:
    """Delete a role with its grants, and the application credentials that these allowed.

    All tokens of now end of those who had it, also by a role that implied it.
    Raises NotFound, Forbidden for an immutable one and for one of our services.
    """
    row = find(tx, role_id)
    own.refuse_removal(row)
    if row.immutable:
        raise _immutable(row)
    losses.end_tokens_by_roles(tx, implying(tx, role_id))
    losses.end_credentials_of_role(tx, role_id)
    for table in (GrantRow, GroupGrantRow):
        tx.execute(delete(table).where(table.role_id == role_id))
    tx.execute(
        delete(ImplicationRow).where(
            or_(ImplicationRow.prior_role_id == role_id, ImplicationRow.implied_role_id == role_id)
        )
    )
    rows.remove(tx, row)


def implying(tx: Session, role_id: str) -> set[str]:
    """Return the ids of all roles by which one has a role: itself, and those that imply it."""
    pairs = tx.execute(select(ImplicationRow.prior_role_id, ImplicationRow.implied_role_id)).all()
    found, waiting = {role_id}, [role_id]
    while waiting:
        implied_id = waiting.pop()
        more = {prior for prior, implied in pairs if implied == implied_id} - found
        found |= more
        waiting += more
    return found


def _immutable(row: RoleRow) -> Forbidden:
    return Forbidden(
        f"The role '{row.name}' is immutable. Set its option immutable to false first."
    )


def _refuse_ruling(tx: Session, role_id: str, name: str) -> None:
    """Raise Forbidden where a role that another one implies would rule the cloud by its name."""
    implied = select(ImplicationRow.prior_role_id).where(ImplicationRow.implied_role_id == role_id)
    if name.lower() == ADMIN and tx.scalars(implied).first() is not None:
        raise Forbidden(
            f"Other roles imply this one, and none may imply '{name}', which rules the cloud. "
            "Nothing was changed."
        )
