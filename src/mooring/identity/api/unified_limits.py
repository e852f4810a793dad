"""/registered_limits and /limits. Source: facts/identity_image_placement.md 4.2 and 4.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.identity import listing, unified_limits, views
from mooring.identity.api.kinds import Kind
from mooring.identity.service import Identity
from mooring.identity.tables import LimitRow, RegisteredLimitRow
from mooring.identity.unified_limits import (
    LimitChange,
    NewLimits,
    NewRegisteredLimits,
    RegisteredLimitChange,
)
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.identity.unified_limits import NewLimit, NewRegisteredLimit

api = Api[Identity]()

_NAMING: listing.Columns = {
    "service_id": RegisteredLimitRow.service_id,
    "region_id": RegisteredLimitRow.region_id,
    "resource_name": RegisteredLimitRow.resource_name,
}
_REGISTERED = Kind(
    "registered_limit",
    RegisteredLimitRow,
    {"id": RegisteredLimitRow.id, **_NAMING},
    views.registered_limit,
)
_LIMITS = Kind(
    "limit",
    LimitRow,
    {
        "id": LimitRow.id,
        "project_id": LimitRow.project_id,
        "domain_id": LimitRow.domain_id,
        **_NAMING,
    },
    views.limit,
)
_MODEL = {
    "name": "flat",
    "description": "Each limit holds for itself, whatever other projects and domains may have.",
}
_ONE_REGISTERED = "/registered_limits/{registered_limit_id}"


@api.get("/registered_limits", policy="identity:list_registered_limits")
async def list_registered_limits(call: Call[Identity]) -> Reply:
    """List registered limits."""
    return await _REGISTERED.page(call)


@api.post(
    "/registered_limits",
    NewRegisteredLimits,
    key="registered_limits",
    policy="identity:create_registered_limits",
)
async def create_registered_limits(call: Call[Identity], body: list[NewRegisteredLimit]) -> Reply:
    """Register limits, all or none."""

    def write(tx: Session) -> list[dict[str, Any]]:
        made = unified_limits.register(tx, body)
        return [views.registered_limit(call, row) for row in made]

    return Reply(201, {"registered_limits": await call.service.change(write)})


@api.get(_ONE_REGISTERED, policy="identity:get_registered_limit")
async def show_registered_limit(call: Call[Identity]) -> Reply:
    """Show a registered limit."""
    return await _REGISTERED.shown(call, unified_limits.find_registered)


@api.patch(
    _ONE_REGISTERED,
    RegisteredLimitChange,
    key="registered_limit",
    policy="identity:update_registered_limit",
)
async def change_registered_limit(call: Call[Identity], body: RegisteredLimitChange) -> Reply:
    """Change a registered limit; of what it is only while no limit refers to it."""
    return await _REGISTERED.changed(
        call, lambda tx, limit_id: unified_limits.change_registered(tx, limit_id, body)
    )


@api.delete(_ONE_REGISTERED, policy="identity:delete_registered_limit")
async def delete_registered_limit(call: Call[Identity]) -> Reply:
    """Delete a registered limit that no limit refers to."""
    return await _REGISTERED.removed(call, unified_limits.remove_registered)


@api.get("/limits/model", policy="identity:get_limit_model")
async def show_limit_model(call: Call[Identity]) -> Reply:
    """Say how limits of several projects go together."""
    return Reply(200, {"model": _MODEL})


@api.get("/limits", policy="identity:list_limits")
async def list_limits(call: Call[Identity]) -> Reply:
    """List limits: all to administrators, to others those of their project or domain."""
    sees_all = call.allowed("admin_or_system_reader")
    found, more = await _LIMITS.find(
        call, lambda _: unified_limits.seen_by(call.who, sees_all=sees_all)
    )
    return Reply(200, listing.body(call, "/limits", "limits", found, more=more))


@api.post("/limits", NewLimits, key="limits", policy="identity:create_limits")
async def create_limits(call: Call[Identity], body: list[NewLimit]) -> Reply:
    """Make limits, all or none."""

    def write(tx: Session) -> list[dict[str, Any]]:
        return [views.limit(call, row) for row in unified_limits.create(tx, body)]

    return Reply(201, {"limits": await call.service.change(write)})


@api.get("/limits/{limit_id}", policy=None)
async def show_limit(call: Call[Identity]) -> Reply:
    """Show a limit; those of its own project or domain to everybody."""

    def find(tx: Session, limit_id: str) -> LimitRow:
        row = unified_limits.find(tx, limit_id)
        call.require("identity:get_limit", unified_limits.target(tx, row))
        return row

    return await _LIMITS.shown(call, find)


@api.patch("/limits/{limit_id}", LimitChange, key="limit", policy="identity:update_limit")
async def change_limit(call: Call[Identity], body: LimitChange) -> Reply:
    """Change how much a project or a domain may have."""
    return await _LIMITS.changed(
        call, lambda tx, limit_id: unified_limits.change(tx, limit_id, body)
    )


@api.delete("/limits/{limit_id}", policy="identity:delete_limit")
async def delete_limit(call: Call[Identity]) -> Reply:
    """Delete a limit: what is registered holds there again."""
    return await _LIMITS.removed(call, unified_limits.remove)
