"""Groups of users: what may be done with them.

Source: facts/identity_image_placement.md 4.1 to 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import delete, select

from mooring.errors import NotFound
from mooring.identity import bodies, domains, losses, rows, users
from mooring.identity.tables import GroupGrantRow, GroupRow, MemberRow

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

Name = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\S")]
Description = Annotated[str, Meta(max_length=65535)]


class NewGroup(Struct, frozen=True):
    """What to make."""

    name: Name
    domain_id: str | None = None
    description: Description | None = None


class GroupChange(Struct, frozen=True):
    """What to change; a group stays in its domain."""

    name: Name | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET


def find(tx: Session, group_id: str) -> GroupRow:
    """Return a group. Raises NotFound."""
    return rows.find(tx, GroupRow, "group", group_id)


def create(tx: Session, new: NewGroup, extra: dict[str, Any], *, domain_id: str) -> GroupRow:
    """Make a group, in `domain_id` unless `new` says otherwise. Raises NotFound, Conflict."""
    domain = domains.find(tx, new.domain_id or domain_id)
    rows.refuse_taken(tx, GroupRow, "group", new.name, GroupRow.domain_id == domain.id)
    return rows.keep(
        tx,
        GroupRow(
            id=bodies.new_id(),
            name=new.name,
            domain_id=domain.id,
            description=new.description or "",
            extra=extra,
        ),
    )


def change(tx: Session, group_id: str, changes: GroupChange, extra: dict[str, Any]) -> GroupRow:
    """Change a group. Raises NotFound, Conflict for a name that is taken."""
    row = find(tx, group_id)
    given = bodies.given(changes)
    if given.get("name", row.name) != row.name:
        rows.refuse_taken(tx, GroupRow, "group", given["name"], GroupRow.domain_id == row.domain_id)
    values = {name: "" if value is None else value for name, value in given.items()}
    return rows.change(tx, row, values, extra)


def remove(tx: Session, group_id: str) -> None:
    """Delete a group: its users lose the roles that they had by it. Raises NotFound.

    So they do their application credentials where the group had roles, and all tokens of now where
    one has a role no more.
    """
    row = find(tx, group_id)
    losses.end_tokens_by_groups(tx, select(GroupRow.id).where(GroupRow.id == group_id))
    losses.end_credentials_by_group(tx, group_id)
    tx.execute(delete(GroupGrantRow).where(GroupGrantRow.group_id == group_id))
    tx.execute(delete(MemberRow).where(MemberRow.group_id == group_id))
    rows.remove(tx, row)


def add(tx: Session, group_id: str, user_id: str) -> None:
    """Put a user into a group; it may be in it already. Raises NotFound.

    Of one who was taken out while tokens of before may still come, these end.
    """
    find(tx, group_id)
    users.find(tx, user_id)
    losses.end_tokens(tx, "member", group_id, user_id, of=[user_id])
    tx.merge(MemberRow(group_id=group_id, user_id=user_id))
    tx.flush()


def check_member(tx: Session, group_id: str, user_id: str) -> None:
    """Raise NotFound unless a user is in a group, and for what is not known at all."""
    find(tx, group_id)
    users.find(tx, user_id)
    if tx.get(MemberRow, (group_id, user_id)) is None:
        raise NotFound(f"User '{user_id}' not found in group '{group_id}'.")


def take_out(tx: Session, group_id: str, user_id: str, *, until: datetime) -> None:
    """Take a user out of a group. Raises NotFound when it is not in it.

    Its application credentials where the group has roles end.
    `until`: when every token of now is worth nothing any more. They lose its roles at once.
    """
    check_member(tx, group_id, user_id)
    losses.end_credentials_by_group(tx, group_id, user_id)
    tx.execute(
        delete(MemberRow).where(MemberRow.group_id == group_id, MemberRow.user_id == user_id)
    )
    losses.remember(tx, "member", group_id, user_id, until=until)
