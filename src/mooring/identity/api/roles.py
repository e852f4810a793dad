"""/roles. Source: facts/identity_image_placement.md 4.3."""

from __future__ import annotations

from typing import Any

from mooring.identity import bodies, roles, views
from mooring.identity.api.kinds import Kind
from mooring.identity.roles import NewRole, RoleChange
from mooring.identity.service import Identity
from mooring.identity.tables import RoleRow
from mooring.web.api import Api, Call, Reply

api = Api[Identity]()

_ROLES = Kind(
    "role",
    RoleRow,
    {"id": RoleRow.id, "name": RoleRow.name},
    views.role,
)


@api.get("/roles", policy="identity:list_roles")
async def list_roles(call: Call[Identity]) -> Reply:
    """List roles; none of them belongs to a domain."""
    if call.query.get("domain_id"):
        return _ROLES.none(call)
    return await _ROLES.page(call)


@api.post("/roles", dict[str, Any], key="role", policy="identity:create_role")
async def create_role(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Make a role."""
    new, extra = bodies.read(body, NewRole)
    return await _ROLES.made(call, lambda tx: roles.create(tx, new, extra))


@api.get("/roles/{role_id}", policy="identity:get_role")
async def show_role(call: Call[Identity]) -> Reply:
    """Show a role."""
    return await _ROLES.shown(call, roles.find)


@api.patch("/roles/{role_id}", dict[str, Any], key="role", policy="identity:update_role")
async def change_role(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Change a role."""
    changes, extra = bodies.read(body, RoleChange, NewRole)
    return await _ROLES.changed(
        call, lambda tx, role_id: roles.change(tx, role_id, changes, extra), body
    )


@api.delete("/roles/{role_id}", policy="identity:delete_role")
async def delete_role(call: Call[Identity]) -> Reply:
    """Delete a role."""
    return await _ROLES.removed(call, roles.remove)
