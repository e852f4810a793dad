"""Roles of users and groups on projects, domains and the system: given, taken, listed.

Source: facts/identity_image_placement.md 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.identity import assignments, grants, listing, views
from mooring.identity.grants import GROUP, USER, Grant, Holder
from mooring.identity.service import Identity
from mooring.identity.standing import SYSTEM
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

api = Api[Identity]()


def _serve(kind: str, holder: str) -> None:
    """Register the four calls on the roles that users, or groups, have on one kind of scope."""
    place = "/system" if kind == "system" else f"/{kind}s/{{scope_id}}"
    several = f"{place}/{holder}s/{{{holder}_id}}/roles"
    one = f"{several}/{{role_id}}"
    rule = "identity:{}_grant" if kind != "system" else f"identity:{{}}_system_grant_for_{holder}"

    @api.get(several, policy=rule.format("list").replace("_grant", "_grants"))
    async def list_grants(call: Call[Identity]) -> Reply:
        """List the roles that were given there."""

        def read(tx: Session) -> list[dict[str, Any]]:
            held = grants.held(tx, _holder(holder, call), _scope(kind, call))
            return [views.role(call, row) for row in held]

        found = await call.service.store.read(read)
        return Reply(200, listing.body(call, several.format(**call.path), "roles", found))

    @api.get(one, policy=rule.format("check"))
    async def check_grant(call: Call[Identity]) -> Reply:
        """Tell whether a role was given there: 204 or 404."""
        grant = _grant(kind, holder, call)
        if not await call.service.store.read(lambda tx: grants.has(tx, grant)):
            raise grants.unknown(grant)
        return Reply(204)

    @api.put(one, policy=rule.format("create"))
    async def create_grant(call: Call[Identity]) -> Reply:
        """Give a role there; again is fine."""
        grant = _grant(kind, holder, call)
        await call.service.change(lambda tx: grants.give(tx, grant))
        return Reply(204)

    @api.delete(one, policy=rule.format("revoke"))
    async def revoke_grant(call: Call[Identity]) -> Reply:
        """Take a role there."""
        grant = _grant(kind, holder, call)
        until = call.service.forget_at(call.service.clock.now())
        await call.service.change(lambda tx: grants.take(tx, grant, until=until))
        return Reply(204)


def _grant(kind: str, holder: str, call: Call[Identity]) -> Grant:
    return Grant(_holder(holder, call), _scope(kind, call), call.path["role_id"])


def _holder(holder: str, call: Call[Identity]) -> Holder:
    return Holder(holder, call.path[f"{holder}_id"])


def _scope(kind: str, call: Call[Identity]) -> str:
    return SYSTEM if kind == "system" else f"{kind}:{call.path['scope_id']}"


for _kind in ("project", "domain", "system"):
    for _holder_kind in (USER, GROUP):
        _serve(_kind, _holder_kind)


@api.get("/role_assignments", policy="identity:list_role_assignments")
async def list_role_assignments(call: Call[Identity]) -> Reply:
    """List who has which role where."""
    wanted = assignments.read_filter(call.query)
    found = await call.service.store.read(lambda tx: assignments.find(tx, wanted))
    names = listing.is_true(call.query, "include_names")
    shown = [assignments.view(call, assignment, names=names) for assignment in found]
    return Reply(200, listing.body(call, "/role_assignments", "role_assignments", shown))
