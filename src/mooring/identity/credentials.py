"""Application credentials: secrets that stand for some of a user's roles on one project.

Source: facts/identity_image_placement.md 2.4.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct
from sqlalchemy import delete, func, select

from mooring.errors import Conflict, Forbidden, Invalid, NotFound
from mooring.identity import bodies, users
from mooring.identity.tables import ApplicationCredentialRow, GroupRow, MemberRow
from mooring.row_limits import IDENTITY_CREDENTIALS, IDENTITY_DESCRIPTION_CHARACTERS
from mooring.web import words

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.identity.standing import Standing

Name = Annotated[str, Meta(min_length=1, max_length=255, pattern=r"\S")]


class RoleRef(Struct, frozen=True):
    """A role, by its id or its name."""

    id: str | None = None
    name: str | None = None


class NewCredential(Struct, frozen=True):
    """What to make. Access rules are not built: a list of them must be empty."""

    name: Name
    description: Annotated[str, Meta(max_length=IDENTITY_DESCRIPTION_CHARACTERS)] | None = None
    secret: Annotated[str, Meta(min_length=1, max_length=255)] | None = None
    expires_at: str | None = None
    roles: list[RoleRef] = []
    unrestricted: bool = False
    access_rules: list[dict[str, Any]] | None = None


def hold(tx: Session, user_id: str) -> None:
    """Keep others from changing a user, what its groups have, and its credentials. Raises NotFound.

    Groups come before the user, as where one is taken out of them.
    """
    query = select(GroupRow).join(MemberRow, MemberRow.group_id == GroupRow.id)
    tx.scalars(query.where(MemberRow.user_id == user_id).order_by(GroupRow.id)).all()
    users.find(tx, user_id)


def create(
    tx: Session, worth: Standing, new: NewCredential, *, secret_hash: str, now: datetime
) -> ApplicationCredentialRow:
    """Make a credential for a token's user and project, which is held (`hold`).

    Raises Invalid, Forbidden, Conflict.
    """
    kind, _, project_id = worth.scope.partition(":")
    if kind != "project":
        raise Invalid("An application credential is made with a token for a project.")
    refuse_restricted(worth)
    if new.access_rules:
        raise Invalid("Access rules are not supported here. Leave access_rules out, or empty.")
    user_id = worth.user.id
    taken = select(ApplicationCredentialRow.id).where(
        ApplicationCredentialRow.user_id == user_id, ApplicationCredentialRow.name == new.name
    )
    if tx.scalar(taken) is not None:
        raise Conflict(f"The user has an application credential named '{new.name}' already.")
    of_user = ApplicationCredentialRow.user_id == user_id
    if (tx.scalar(select(func.count()).where(of_user)) or 0) >= IDENTITY_CREDENTIALS:
        raise Forbidden(
            "Unable to create additional application credentials: a user has "
            f"{IDENTITY_CREDENTIALS} at most. Nothing was made; delete one first."
        )
    row = ApplicationCredentialRow(
        id=bodies.new_id(),
        name=new.name,
        description=new.description,
        user_id=user_id,
        project_id=project_id,
        role_ids=_roles(worth, new.roles),
        secret_hash=secret_hash,
        expires_at=_end(new.expires_at, now),
        unrestricted=new.unrestricted,
    )
    tx.add(row)
    tx.flush()
    return row


def refuse_restricted(worth: Standing) -> None:
    """Raise Forbidden for a token of an application credential that is not unrestricted."""
    if worth.credential is not None and not worth.credential.unrestricted:
        raise Forbidden(
            "Using an application credential that is not unrestricted, application credentials "
            "can be neither made nor deleted."
        )


def visible(tx: Session, user_id: str, credential_id: str) -> ApplicationCredentialRow:
    """Return a credential of a user. Raises NotFound, also for another user's."""
    row = tx.get(ApplicationCredentialRow, credential_id)
    if row is None or row.user_id != user_id:
        raise NotFound(f"Could not find application credential: {credential_id}.")
    return row


def of_user(tx: Session, user_id: str, name: str | None) -> list[ApplicationCredentialRow]:
    """Return a user's credentials, or the one of a name."""
    rows = select(ApplicationCredentialRow).where(ApplicationCredentialRow.user_id == user_id)
    if name is not None:
        rows = rows.where(ApplicationCredentialRow.name == name)
    return list(tx.scalars(rows.order_by(ApplicationCredentialRow.name)))


def remove(tx: Session, user_id: str, credential_id: str) -> None:
    """Delete a credential; its tokens end at once. Raises NotFound."""
    row = visible(tx, user_id, credential_id)
    tx.execute(delete(ApplicationCredentialRow).where(ApplicationCredentialRow.id == row.id))


def _roles(worth: Standing, wanted: list[RoleRef]) -> list[str]:
    held = dict(worth.roles)
    if not wanted:
        return sorted(held)
    by_name = {name: role_id for role_id, name in worth.roles}
    chosen: set[str] = set()
    for role in wanted:
        role_id = role.id or by_name.get(role.name or "")
        if role_id not in held:
            raise Invalid(f"The token does not have the role {role.id or role.name}.")
        chosen.add(role_id)
    return sorted(chosen)


def _end(text: str | None, now: datetime) -> datetime | None:
    if text is None:
        return None
    try:
        end = words.instant(text)
    except ValueError as error:
        raise Invalid(f"Invalid input for expires_at: '{text}' is not an ISO 8601 time.") from error
    if end <= now:
        raise Invalid("Invalid input for expires_at: the time is over.")
    return end
