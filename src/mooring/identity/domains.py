"""Domains: what may be done with them. Source: facts/identity_image_placement.md 4.1 and 4.4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import delete, literal, or_, select, update

from mooring.errors import Conflict, Forbidden
from mooring.identity import bodies, grants, losses, own, rows
from mooring.identity.tables import (
    ApplicationCredentialRow,
    DomainRow,
    GrantRow,
    GroupGrantRow,
    GroupRow,
    LimitRow,
    MemberRow,
    ProjectRow,
    UserRow,
)
from mooring.identity.tags import Tags

if TYPE_CHECKING:
    from sqlalchemy import Delete, Update
    from sqlalchemy.orm import Session

Name = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\S")]
Description = Annotated[str, Meta(max_length=65535)]
Id = Annotated[str, Meta(pattern=r"^[0-9a-f]{32}\Z")]


class NewDomain(Struct, frozen=True):
    """What to make; of the id that it has in another cloud, when that is given."""

    name: Name
    description: Description | None = None
    enabled: bool = True
    tags: Tags = []
    explicit_domain_id: Id | None = None


class DomainChange(Struct, frozen=True):
    """What to change."""

    name: Name | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET


def find(tx: Session, domain_id: str) -> DomainRow:
    """Return a domain. Raises NotFound."""
    return rows.find(tx, DomainRow, "domain", domain_id)


def create(tx: Session, new: NewDomain, extra: dict[str, Any]) -> DomainRow:
    """Make a domain. Raises Conflict for a name or an id that is taken."""
    rows.refuse_taken(tx, DomainRow, "domain", new.name)
    domain_id = new.explicit_domain_id or bodies.new_id()
    if tx.get(DomainRow, domain_id) is not None:
        raise Conflict(
            f"Conflict occurred attempting to store domain: there is one of id {domain_id}. "
            "Nothing was made; leave explicit_domain_id out, or use that one."
        )
    return rows.keep(
        tx,
        DomainRow(
            id=domain_id,
            name=new.name,
            description=new.description or "",
            enabled=new.enabled,
            tags=sorted(set(new.tags)),
            extra=extra,
        ),
    )


def change(tx: Session, domain_id: str, changes: DomainChange, extra: dict[str, Any]) -> DomainRow:
    """Change a domain; disabling it ends all tokens of its users, for it and for its projects.

    Application credentials rest until it is enabled again: nothing was taken from anybody.
    Raises NotFound, Conflict for a name that is taken, Forbidden when it cannot be disabled.
    """
    row = find(tx, domain_id)
    given = bodies.given(changes)
    if given.get("name", row.name) != row.name:
        rows.refuse_taken(tx, DomainRow, "domain", given["name"])
    values = {name: "" if value is None else value for name, value in given.items()}
    if "tags" in given:
        values["tags"] = sorted(set(given["tags"]))
    if given.get("enabled") is False:
        _refuse_default(row, "disabled")
        values["token_generation"] = row.token_generation + 1
        for table in (UserRow, ProjectRow):
            ended = {"token_generation": table.token_generation + 1}
            tx.execute(update(table).where(table.domain_id == domain_id).values(ended))
    return rows.change(tx, row, values, extra)


def remove(tx: Session, domain_id: str) -> None:
    """Delete a domain with its users, groups and projects, and all that these had.

    What other services keep for its projects stays: they are not asked. Raises NotFound, and
    Forbidden for one that is enabled.
    """
    row = find(tx, domain_id)
    _refuse_default(row, "deleted")
    if row.enabled:
        raise Forbidden(
            f"Domain {domain_id} is enabled: its users may be at work. Nothing was deleted; "
            "disable it first."
        )
    # Held until the end: a role that is being given on one of them is there to be taken by then.
    # So is an application credential that is being made by what a group gives.
    for table in (ProjectRow, GroupRow):
        tx.scalars(select(table).where(table.domain_id == domain_id)).all()
    losses.end_tokens_by_groups(tx, select(GroupRow.id).where(GroupRow.domain_id == domain_id))
    losses.end_credentials_by_groups_of(tx, domain_id)
    grants.forget_scope(tx, f"domain:{domain_id}")
    for statement in _forgetting(domain_id):
        tx.execute(statement, execution_options={"synchronize_session": False})
    rows.remove(tx, row)


def _forgetting(domain_id: str) -> list[Delete | Update]:
    """Return what deletes all that is in a domain, each after what refers to it.

    Users of other domains, whose default project is among that, have none then.
    """
    users = select(UserRow.id).where(UserRow.domain_id == domain_id)
    groups = select(GroupRow.id).where(GroupRow.domain_id == domain_id)
    projects = select(ProjectRow.id).where(ProjectRow.domain_id == domain_id)
    scopes = select(literal("project:") + ProjectRow.id).where(ProjectRow.domain_id == domain_id)
    credential, member = ApplicationCredentialRow, MemberRow
    return [
        delete(GrantRow).where(or_(GrantRow.user_id.in_(users), GrantRow.scope.in_(scopes))),
        delete(GroupGrantRow).where(
            or_(GroupGrantRow.group_id.in_(groups), GroupGrantRow.scope.in_(scopes))
        ),
        delete(credential).where(
            or_(credential.user_id.in_(users), credential.project_id.in_(projects))
        ),
        delete(member).where(or_(member.user_id.in_(users), member.group_id.in_(groups))),
        delete(LimitRow).where(
            or_(LimitRow.domain_id == domain_id, LimitRow.project_id.in_(projects))
        ),
        update(UserRow)
        .where(UserRow.default_project_id.in_(projects))
        .values(default_project_id=None),
        *(
            delete(table).where(table.domain_id == domain_id)
            for table in (UserRow, GroupRow, ProjectRow)
        ),
    ]


def _refuse_default(row: DomainRow, what: str) -> None:
    if row.id == own.DOMAIN_ID:
        raise Forbidden(
            f"Domain {row.id} cannot be {what}: the users of the cloud's own services are in it. "
            "Nothing was changed."
        )
