"""/roles and what they imply. Source: facts/identity_image_placement.md 4.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from mooring.identity import bodies, roles, views
from mooring.identity.api.kinds import Kind
from mooring.identity.roles import NewRole, RoleChange
from mooring.identity.service import Identity
from mooring.identity.tables import ImplicationRow, RoleRow
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

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
    return await _ROLES.changed(call, lambda tx, role_id: roles.change(tx, role_id, changes, extra))


@api.delete("/roles/{role_id}", policy="identity:delete_role")
async def delete_role(call: Call[Identity]) -> Reply:
    """Delete a role."""
    return await _ROLES.removed(call, roles.remove)


@api.get("/roles/{role_id}/implies", policy="identity:list_implied_roles")
async def list_implied_roles(call: Call[Identity]) -> Reply:
    """List the roles that a role implies directly."""
    role_id = call.path["role_id"]

    def read(tx: Session) -> dict[str, Any]:
        roles.find(tx, role_id)
        return _inference(call, tx, role_id)

    found = await call.service.store.read(read)
    links = {"self": call.url(f"/roles/{role_id}/implies")}
    return Reply(200, {"role_inference": found, "links": links})


@api.get("/role_inferences", policy="identity:list_role_inference_rules")
async def list_role_inferences(call: Call[Identity]) -> Reply:
    """List all implications."""

    def read(tx: Session) -> list[dict[str, Any]]:
        priors = tx.scalars(select(ImplicationRow.prior_role_id).distinct())
        return [_inference(call, tx, role_id) for role_id in priors]

    found = await call.service.store.read(read)
    links = {"self": call.url("/role_inferences")}
    return Reply(200, {"role_inferences": found, "links": links})


def _inference(call: Call[Identity], tx: Session, role_id: str) -> dict[str, Any]:
    rows = tx.scalars(
        select(RoleRow)
        .join(ImplicationRow, ImplicationRow.implied_role_id == RoleRow.id)
        .where(ImplicationRow.prior_role_id == role_id)
        .order_by(RoleRow.name)
    )
    return {
        "prior_role": _brief(call, roles.find(tx, role_id)),
        "implies": [_brief(call, row) for row in rows],
    }


def _brief(call: Call[Identity], row: RoleRow) -> dict[str, Any]:
    shown = views.role(call, row)
    return {key: shown[key] for key in ("id", "name", "links")}
