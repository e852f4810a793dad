"""Projects: what may be done with them. Source: facts/identity_image_placement.md 4.1 and 4.4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from sqlalchemy import (
    ColumnElement,
    Text,
    and_,
    delete,
    func,
    not_,
    or_,
    select,
    type_coerce,
    update,
)

from mooring import limits
from mooring.errors import Conflict, Invalid, NotFound
from mooring.identity import bodies, domains, grants, own, rows
from mooring.identity.tables import ApplicationCredentialRow, LimitRow, ProjectRow, UserRow
from mooring.identity.tags import MOST_TAGS, Tags

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy.orm import Session

Name = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\S")]
Description = Annotated[str, Meta(max_length=65535)]


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


def create(tx: Session, new: NewProject, extra: dict[str, Any], *, domain_id: str) -> ProjectRow:
    """Make a project, in `domain_id` unless `new` says otherwise. Raises NotFound, Conflict."""
    domain = domains.find(tx, new.domain_id or domain_id)
    if new.is_domain:
        raise Conflict(
            "A project is no domain in this cloud. Nothing was made; make a domain at /domains."
        )
    if new.parent_id not in (None, domain.id):
        raise Conflict(
            "This cloud has no trees of projects. Leave parent_id out, or name the domain."
        )
    rows.refuse_taken(tx, ProjectRow, "project", new.name, ProjectRow.domain_id == domain.id)
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
    """Change a project; disabling it ends all tokens of before.

    Application credentials rest until it is enabled again: nothing was taken from anybody.
    Raises NotFound, Conflict for a name that is taken, Forbidden for what our services need of it.
    """
    row = find(tx, project_id)
    given = bodies.given(changes)
    own.refuse_changes(row, given)
    if given.get("name", row.name) != row.name:
        rows.refuse_taken(
            tx, ProjectRow, "project", given["name"], ProjectRow.domain_id == row.domain_id
        )
    values = {name: "" if value is None else value for name, value in given.items()}
    if "tags" in given:
        values["tags"] = sorted(set(given["tags"]))
    if given.get("enabled") is False:
        values["token_generation"] = row.token_generation + 1
    return rows.change(tx, row, values, extra)


def tagged(query: Mapping[str, str]) -> list[ColumnElement[bool]]:
    """Return what holds for projects with these tags: `tags`, `tags-any` and their opposites.

    Each is a list with commas, as in facts/compute.md 10.1. Raises Invalid for one of too many.
    """

    def has(key: str) -> list[ColumnElement[bool]]:
        tags = sorted({tag for tag in query.get(key, "").split(",") if tag})
        if len(tags) > limits.WEB_CONDITIONS:
            raise Invalid(
                f"The filter {key} names more than {limits.WEB_CONDITIONS} tags. Ask for fewer: a "
                f"project has at most {MOST_TAGS}."
            )
        return [_has(tag) for tag in tags]

    found = has("tags")
    if some := has("tags-any"):
        found.append(or_(*some))
    if every := has("not-tags"):
        found.append(not_(and_(*every)))
    if none := has("not-tags-any"):
        found.append(not_(or_(*none)))
    return found


def _has(tag: str) -> ColumnElement[bool]:
    """Find a tag in the JSON of all: no tag has a comma, and a quote within one has a backslash.

    By `replace`, which tells letters apart by their case on both databases, as LIKE does not.
    """
    tags, word = type_coerce(ProjectRow.tags, Text), msgspec.json.encode(tag).decode()
    return or_(*(func.replace(tags, f"{before}{word}", "") != tags for before in ("[", ",")))


def set_tags(tx: Session, project_id: str, tags: Iterable[str]) -> list[str]:
    """Mark a project with these tags alone, and return them. Raises NotFound."""
    row = rows.change(tx, find(tx, project_id), {"tags": sorted(set(tags))}, {})
    return row.tags


def add_tag(tx: Session, project_id: str, tag: str) -> None:
    """Mark a project with one tag more. Raises NotFound, and Invalid when it has too many."""
    tags = {*find(tx, project_id).tags, tag}
    if len(tags) > MOST_TAGS:
        raise Invalid(
            f"Project {project_id} has {MOST_TAGS} tags, and none can have more. Nothing was "
            "changed; take one away first."
        )
    set_tags(tx, project_id, tags)


def remove_tag(tx: Session, project_id: str, tag: str) -> None:
    """Take one tag away. Raises NotFound for the project, and for the tag."""
    tags = find(tx, project_id).tags
    if tag not in tags:
        raise NotFound(f"Could not find project tag: {tag}.")
    set_tags(tx, project_id, set(tags) - {tag})


def remove(tx: Session, project_id: str) -> None:
    """Delete a project with its grants, application credentials and limits.

    Users whose default project it is have none then. What other services keep for it stays: they
    are not asked. Raises NotFound, and Forbidden for the one of our own services.
    """
    row = find(tx, project_id)
    own.refuse_removal(row)
    grants.forget_scope(tx, f"project:{project_id}")
    tx.execute(
        delete(ApplicationCredentialRow).where(ApplicationCredentialRow.project_id == project_id)
    )
    tx.execute(delete(LimitRow).where(LimitRow.project_id == project_id))
    defaults = update(UserRow).where(UserRow.default_project_id == project_id)
    tx.execute(defaults.values(default_project_id=None))
    rows.remove(tx, row)


def by_name(tx: Session, name: str, domain_id: str) -> ProjectRow | None:
    """Return the project of a name, or None."""
    return tx.scalar(
        select(ProjectRow).where(ProjectRow.name == name, ProjectRow.domain_id == domain_id)
    )
