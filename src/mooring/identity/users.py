"""Users: what may be done with them. Source: facts/identity_image_placement.md 2.5 and 4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import ColumnElement, delete, false, select

from mooring.errors import Unauthenticated
from mooring.identity import bodies, domains, losses, own, rows
from mooring.identity.standing import INVALID
from mooring.identity.tables import (
    DomainRow,
    GrantRow,
    MemberRow,
    UserRow,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from sqlalchemy.orm import Session

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"\S")]
_OF_NOBODY = ("password_expires_at", "idp_id", "protocol_id", "unique_id")


class NewUser(Struct, frozen=True):
    """Who to make. Without a password nobody can log in as that user."""

    name: Name
    domain_id: str | None = None
    password: str | None = None
    default_project_id: str | None = None
    enabled: bool = True


class UserChange(Struct, frozen=True):
    """What to change."""

    name: Name | UnsetType = UNSET
    password: str | UnsetType | None = UNSET
    default_project_id: str | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET


def find(tx: Session, user_id: str) -> UserRow:
    """Return a user. Raises NotFound."""
    return rows.find(tx, UserRow, "user", user_id)


def by_name(tx: Session, name: str, domain_id: str) -> UserRow | None:
    """Return the user of a name, or None."""
    return tx.scalar(select(UserRow).where(UserRow.name == name, UserRow.domain_id == domain_id))


def unheard_of(query: Mapping[str, str]) -> list[ColumnElement[bool]]:
    """Return what holds for nobody where users are asked for by what none here has.

    No password expires, and no user is federated.
    """
    return [false()] if any(name in query for name in _OF_NOBODY) else []


def generation(tx: Session, user_id: str) -> int:
    """Return how often all tokens of a user have been ended; 0 for nobody."""
    query = select(UserRow.token_generation).where(UserRow.id == user_id)
    return tx.scalar(query) or 0


def password_hash(tx: Session, user_id: str) -> str | None:
    """Return the hash of an enabled user's password; None for anybody else, as in its domain."""
    query = select(UserRow.password_hash).join(DomainRow, DomainRow.id == UserRow.domain_id)
    return tx.scalar(query.where(UserRow.id == user_id, UserRow.enabled, DomainRow.enabled))


def create(
    tx: Session,
    new: NewUser,
    extra: dict[str, Any],
    *,
    domain_id: str,
    password_hash: str | None,
    now: datetime,
) -> UserRow:
    """Make a user, in `domain_id` unless `new` says otherwise. Raises NotFound, Conflict."""
    domain = domains.find(tx, new.domain_id or domain_id)
    rows.refuse_taken(tx, UserRow, "user", new.name, UserRow.domain_id == domain.id)
    return rows.keep(
        tx,
        UserRow(
            id=bodies.new_id(),
            name=new.name,
            domain_id=domain.id,
            enabled=new.enabled,
            default_project_id=new.default_project_id,
            password_hash=password_hash,
            tokens_from=now,
            extra=extra,
        ),
    )


def change(
    tx: Session,
    user_id: str,
    changes: UserChange,
    extra: dict[str, Any],
    *,
    password_hash: str | None,
) -> UserRow:
    """Change a user; a new password, or disabling, ends all tokens of before.

    Disabling ends its application credentials, too; what an earlier release left goes in the end.
    Raises NotFound, Conflict for a name that is taken, Forbidden for what our services need of it.
    """
    row = find(tx, user_id)
    given = bodies.given(changes)
    own.refuse_changes(row, given)
    if given.get("name", row.name) != row.name:
        rows.refuse_taken(tx, UserRow, "user", given["name"], UserRow.domain_id == row.domain_id)
    if "password" in given:
        given["password_hash"] = password_hash
        del given["password"]
    if "password_hash" in given or given.get("enabled") is False:
        given["token_generation"] = row.token_generation + 1
    if not (row.enabled and given.get("enabled", True)):
        losses.end_credentials_of_user(tx, user_id)
    return rows.change(tx, row, given, extra)


def set_password(tx: Session, user_id: str, password_hash: str) -> None:
    """Give a user another password; ends all tokens of before. Raises NotFound."""
    row = find(tx, user_id)
    row.password_hash, row.token_generation = password_hash, row.token_generation + 1
    tx.flush()


def change_password(tx: Session, user_id: str, *, before: str | None, after: str) -> None:
    """Do the same for somebody who proved the hash `before`.

    Raises Unauthenticated when another password has taken its place meanwhile, NotFound, and
    Forbidden for one of our own services.
    """
    row = find(tx, user_id)
    if row.password_hash != before:
        raise Unauthenticated(INVALID, private=f"a password of before for {user_id}")
    own.refuse_changes(row, {"password": after})
    set_password(tx, user_id, after)


def remove(tx: Session, user_id: str) -> None:
    """Delete a user: its grants, credentials and memberships, too.

    Raises NotFound, and Forbidden for one of our own services.
    """
    row = find(tx, user_id)
    own.refuse_removal(row)
    tx.execute(delete(MemberRow).where(MemberRow.user_id == user_id))
    tx.execute(delete(GrantRow).where(GrantRow.user_id == user_id))
    losses.end_credentials_of_user(tx, user_id)
    rows.remove(tx, row)
