"""Roles of users on projects, on the domain and on the system: given, taken, listed.

Source: facts/identity_image_placement.md 4.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.identity import assignments, listing, roles, views
from mooring.identity.service import Identity
from mooring.identity.standing import SYSTEM
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

api = Api[Identity]()


def _serve(prefix: str, kind: str, *, list_: str, check: str, create: str, revoke: str) -> None:
    """Register the four calls on the roles of one kind of scope; the rest are its rules."""
    several, one = (
        f"{prefix}/users/{{user_id}}/roles",
        f"{prefix}/users/{{user_id}}/roles/{{role_id}}",
    )

    @api.get(several, policy=f"identity:{list_}")
    async def list_grants(call: Call[Identity]) -> Reply:
        """List the roles that a user was given there."""

        def read(tx: Session) -> list[dict[str, Any]]:
            rows = roles.granted(tx, call.path["user_id"], _scope(kind, call))
            return [views.role(call, row) for row in rows]

        found = await call.service.store.read(read)
        return Reply(200, listing.body(call, several.format(**call.path), "roles", found))

    @api.get(one, policy=f"identity:{check}")
    async def check_grant(call: Call[Identity]) -> Reply:
        """Tell whether a user was given a role there: 204 or 404."""
        user_id, scope, role_id = _grant(kind, call)
        if not await call.service.store.read(lambda tx: roles.has(tx, user_id, scope, role_id)):
            raise roles.unknown_grant(user_id, role_id)
        return Reply(204)

    @api.put(one, policy=f"identity:{create}")
    async def create_grant(call: Call[Identity]) -> Reply:
        """Give a user a role there; again is fine."""
        await call.service.change(lambda tx: roles.grant(tx, *_grant(kind, call)))
        return Reply(204)

    @api.delete(one, policy=f"identity:{revoke}")
    async def revoke_grant(call: Call[Identity]) -> Reply:
        """Take a role from a user there."""
        until = call.service.forget_at(call.service.clock.now())
        await call.service.change(lambda tx: roles.take(tx, *_grant(kind, call), until=until))
        return Reply(204)


def _grant(kind: str, call: Call[Identity]) -> tuple[str, str, str]:
    return call.path["user_id"], _scope(kind, call), call.path["role_id"]


def _scope(kind: str, call: Call[Identity]) -> str:
    return SYSTEM if kind == "system" else f"{kind}:{call.path['scope_id']}"


for _prefix, _kind in (("/projects/{scope_id}", "project"), ("/domains/{scope_id}", "domain")):
    _serve(
        _prefix,
        _kind,
        list_="list_grants",
        check="check_grant",
        create="create_grant",
        revoke="revoke_grant",
    )
_serve(
    "/system",
    "system",
    list_="list_system_grants_for_user",
    check="check_system_grant_for_user",
    create="create_system_grant_for_user",
    revoke="revoke_system_grant_for_user",
)


@api.get("/role_assignments", policy="identity:list_role_assignments")
async def list_role_assignments(call: Call[Identity]) -> Reply:
    """List who has which role where."""
    wanted = assignments.read_filter(call.query)
    found = await call.service.store.read(lambda tx: assignments.find(tx, wanted))
    names = listing.is_true(call.query, "include_names")
    shown = [assignments.view(call, assignment, names=names) for assignment in found]
    return Reply(200, listing.body(call, "/role_assignments", "role_assignments", shown))
