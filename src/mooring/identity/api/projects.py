"""/projects. Source: facts/identity_image_placement.md 4.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.errors import Invalid
from mooring.identity import bodies, listing, projects, views
from mooring.identity.api.kinds import Kind, own_domain
from mooring.identity.projects import NewProject, ProjectChange
from mooring.identity.service import Identity
from mooring.identity.tables import ProjectRow
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

api = Api[Identity]()

_PROJECTS = Kind(
    "project",
    ProjectRow,
    {
        "id": ProjectRow.id,
        "name": ProjectRow.name,
        "domain_id": ProjectRow.domain_id,
        "parent_id": ProjectRow.domain_id,
        "enabled": ProjectRow.enabled,
    },
    views.project,
)


@api.get("/projects", policy="identity:list_projects")
async def list_projects(call: Call[Identity]) -> Reply:
    """List projects."""
    if listing.is_true(call.query, "is_domain"):
        return _PROJECTS.none(call)
    return await _PROJECTS.page(call, *projects.tagged(call.query))


@api.post("/projects", dict[str, Any], key="project", policy="identity:create_project")
async def create_project(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Make a project."""
    new, extra = bodies.read(body, NewProject)
    domain_id = own_domain(call)
    return await _PROJECTS.made(
        call, lambda tx: projects.create(tx, new, extra, domain_id=domain_id)
    )


@api.get("/projects/{project_id}", policy=None)
async def show_project(call: Call[Identity]) -> Reply:
    """Show a project, and what is above and below it; its own one to everybody."""
    project_id = call.path["project_id"]
    call.require("identity:get_project", {"target.project.id": project_id})
    asked = {what: _asked(call, what) for what in ("parents", "subtree")}

    def read(tx: Session) -> dict[str, Any]:
        row = projects.find(tx, project_id)
        return views.project(call, row) | _family(row, asked)

    return Reply(200, {"project": await call.service.store.read(read)})


@api.patch(
    "/projects/{project_id}", dict[str, Any], key="project", policy="identity:update_project"
)
async def change_project(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Change a project."""
    changes, extra = bodies.read(body, ProjectChange, NewProject)
    return await _PROJECTS.changed(
        call, lambda tx, project_id: projects.change(tx, project_id, changes, extra), body
    )


@api.delete("/projects/{project_id}", policy="identity:delete_project")
async def delete_project(call: Call[Identity]) -> Reply:
    """Delete a project."""
    return await _PROJECTS.removed(call, projects.remove)


def _family(row: ProjectRow, asked: dict[str, str]) -> dict[str, Any]:
    """Show what is asked for of a project's `parents` and `subtree`.

    There are no trees: above a project is its domain alone, on which as a project nobody has roles.
    """
    shown: dict[str, Any] = {}
    if asked["parents"]:
        shown["parents"] = [] if asked["parents"] == "list" else {row.domain_id: None}
    if asked["subtree"]:
        shown["subtree"] = [] if asked["subtree"] == "list" else None
    return shown


def _asked(call: Call[Identity], what: str) -> str:
    """Return how the parents or the subtree are to be shown: `list`, `ids`, or not (empty).

    Raises Invalid for both at once.
    """
    asked = [how for how in ("list", "ids") if listing.is_true(call.query, f"{what}_as_{how}")]
    if len(asked) > 1:
        raise Invalid(f"Cannot use {what}_as_list and {what}_as_ids query params at the same time.")
    return asked[0] if asked else ""
