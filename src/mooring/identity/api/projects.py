"""/projects and /domains. Source: facts/identity_image_placement.md 4.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from mooring.errors import Forbidden
from mooring.identity import bodies, listing, projects, views
from mooring.identity.projects import NewProject, ProjectChange
from mooring.identity.service import Identity
from mooring.identity.tables import DomainRow, ProjectRow
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

api = Api[Identity]()

_COLUMNS: listing.Columns = {
    "id": ProjectRow.id,
    "name": ProjectRow.name,
    "domain_id": ProjectRow.domain_id,
    "parent_id": ProjectRow.domain_id,
    "enabled": ProjectRow.enabled,
}
_DOMAIN_COLUMNS: listing.Columns = {
    "id": DomainRow.id,
    "name": DomainRow.name,
    "enabled": DomainRow.enabled,
}


@api.get("/projects", policy="identity:list_projects")
async def list_projects(call: Call[Identity]) -> Reply:
    """List projects."""

    def read(tx: Session) -> tuple[list[dict[str, Any]], bool]:
        if listing.is_true(call.query, "is_domain"):
            return [], False
        rows, more = listing.select_page(tx, call.query, select(ProjectRow), _COLUMNS)
        return [views.project(call, row) for row in rows], more

    found, more = await call.service.store.read(read)
    return Reply(200, listing.body(call, "/projects", "projects", found, more=more))


@api.post("/projects", dict[str, Any], key="project", policy="identity:create_project")
async def create_project(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Make a project."""
    new = bodies.known(body, NewProject)
    extra = bodies.unknown(body, NewProject)
    domain_id = call.who.project_domain_id or call.who.user_domain_id
    made = await call.service.change(
        lambda tx: views.project(call, projects.create(tx, new, extra, domain_id=domain_id))
    )
    return Reply(201, {"project": made})


@api.get("/projects/{project_id}", policy=None)
async def show_project(call: Call[Identity]) -> Reply:
    """Show a project; its own one to everybody."""
    project_id = call.path["project_id"]
    call.require("identity:get_project", {"target.project.id": project_id})
    found = await call.service.store.read(
        lambda tx: views.project(call, projects.find(tx, project_id))
    )
    return Reply(200, {"project": found})


@api.patch(
    "/projects/{project_id}", dict[str, Any], key="project", policy="identity:update_project"
)
async def change_project(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Change a project."""
    project_id = call.path["project_id"]
    changes = bodies.known(body, ProjectChange)
    extra = bodies.unknown(body, NewProject)
    changed = await call.service.change(
        lambda tx: views.project(call, projects.change(tx, project_id, changes, extra))
    )
    return Reply(200, {"project": changed})


@api.delete("/projects/{project_id}", policy="identity:delete_project")
async def delete_project(call: Call[Identity]) -> Reply:
    """Delete a project."""
    await call.service.change(lambda tx: projects.remove(tx, call.path["project_id"]))
    return Reply(204)


@api.get("/domains", policy="identity:list_domains")
async def list_domains(call: Call[Identity]) -> Reply:
    """List domains."""

    def read(tx: Session) -> tuple[list[dict[str, Any]], bool]:
        rows, more = listing.select_page(tx, call.query, select(DomainRow), _DOMAIN_COLUMNS)
        return [views.domain(call, row) for row in rows], more

    found, more = await call.service.store.read(read)
    return Reply(200, listing.body(call, "/domains", "domains", found, more=more))


@api.get("/domains/{domain_id}", policy=None)
async def show_domain(call: Call[Identity]) -> Reply:
    """Show a domain; its own one to everybody."""
    domain_id = call.path["domain_id"]
    call.require("identity:get_domain", {"target.domain.id": domain_id})
    found = await call.service.store.read(
        lambda tx: views.domain(call, projects.find_domain(tx, domain_id))
    )
    return Reply(200, {"domain": found})


@api.post("/domains", policy="identity:create_domain")
async def create_domain(call: Call[Identity]) -> Reply:
    """Refuse: there is one domain."""
    raise Forbidden("This cloud has one domain, 'default'. Make a project in it instead.")
