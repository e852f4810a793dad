"""Projects: what may be done with them. Source: facts/identity_image_placement.md 4.1 and 4.4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import delete, select

from mooring.errors import Conflict
from mooring.identity import bodies, rows
from mooring.identity.tables import ApplicationCredentialRow, DomainRow, GrantRow, ProjectRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

Name = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\S")]
Description = Annotated[str, Meta(max_length=65535)]
Tags = Annotated[list[Annotated[str, Meta(min_length=1, max_length=255)]], Meta(max_length=80)]


class NewProject(Struct, frozen=True):
    """What to make. `parent_id` may only be the domain: projects have no trees here."""

    name: Name
    domain_id: str | None = None
    description: Description | None = None
    enabled: bool = True
    parent_id: str | None = None
    is_domain: bool = False
    tags: Tags = []


class ProjectChange(Struct, frozen=True):
    """What to change."""

    name: Name | UnsetType = UNSET
    description: Description | UnsetType | None = UNSET
    enabled: bool | UnsetType = UNSET
    tags: Tags | UnsetType = UNSET


def find(tx: Session, project_id: str) -> ProjectRow:
    """Return a project. Raises NotFound."""
    return rows.find(tx, ProjectRow, "project", project_id)


def find_domain(tx: Session, domain_id: str) -> DomainRow:
    """Return a domain. Raises NotFound."""
    return rows.find(tx, DomainRow, "domain", domain_id)


def create(tx: Session, new: NewProject, extra: dict[str, Any], *, domain_id: str) -> ProjectRow:
    """Make a project, in `domain_id` unless `new` says otherwise. Raises NotFound, Conflict."""
    domain = find_domain(tx, new.domain_id or domain_id)
    if new.is_domain:
        raise Conflict("This cloud has one domain, 'default'. Make a project without is_domain.")
    if new.parent_id not in (None, domain.id):
        raise Conflict(
            "This cloud has no trees of projects. Leave parent_id out, or name the domain."
        )
    _refuse_taken(tx, new.name, domain.id)
    return rows.keep(
        tx,
        ProjectRow(
            id=bodies.new_id(),
            name=new.name,
            domain_id=domain.id,
            description=new.description or "",
            enabled=new.enabled,
            tags=sorted(set(new.tags)),
            extra=extra,
        ),
    )


def change(
    tx: Session, project_id: str, changes: ProjectChange, extra: dict[str, Any]
) -> ProjectRow:
    """Change a project. Raises NotFound, Conflict for a name that is taken."""
    row = find(tx, project_id)
    given = bodies.given(changes)
    if given.get("name", row.name) != row.name:
        _refuse_taken(tx, given["name"], row.domain_id)
    values = {name: "" if value is None else value for name, value in given.items()}
    return rows.change(tx, row, values, extra)


def remove(tx: Session, project_id: str) -> None:
    """Delete a project with its grants and application credentials. Raises NotFound.

    What other services keep for it stays: they are not asked.
    """
    row = find(tx, project_id)
    tx.execute(delete(GrantRow).where(GrantRow.scope == f"project:{project_id}"))
    tx.execute(
        delete(ApplicationCredentialRow).where(ApplicationCredentialRow.project_id == project_id)
    )
    rows.remove(tx, row)


def by_name(tx: Session, name: str, domain_id: str) -> ProjectRow | None:
    """Return the project of a name, or None."""
    return tx.scalar(
        select(ProjectRow).where(ProjectRow.name == name, ProjectRow.domain_id == domain_id)
    )


def _refuse_taken(tx: Session, name: str, domain_id: str) -> None:
    if by_name(tx, name, domain_id) is not None:
        raise Conflict(f"Conflict occurred attempting to store project: '{name}' exists already.")
