"""/groups, and who is in them. Source: facts/identity_image_placement.md 4.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from mooring.identity import bodies, groups, listing, users, views
from mooring.identity.api.kinds import Kind, own_domain
from mooring.identity.api.users import USERS
from mooring.identity.groups import GroupChange, NewGroup
from mooring.identity.service import Identity
from mooring.identity.tables import GroupRow, MemberRow, UserRow
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy import Select
    from sqlalchemy.orm import Session

api = Api[Identity]()

_MEMBERS = "/groups/{group_id}/users"
_MEMBER = f"{_MEMBERS}/{{user_id}}"
_GROUPS = Kind(
    "group",
    GroupRow,
    {"id": GroupRow.id, "name": GroupRow.name, "domain_id": GroupRow.domain_id},
    views.group,
)


@api.get("/groups", policy="identity:list_groups")
async def list_groups(call: Call[Identity]) -> Reply:
    """List groups."""
    return await _GROUPS.page(call)


@api.post("/groups", dict[str, Any], key="group", policy="identity:create_group")
async def create_group(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Make a group."""
    new, extra = bodies.read(body, NewGroup)
    domain_id = own_domain(call)
    return await _GROUPS.made(call, lambda tx: groups.create(tx, new, extra, domain_id=domain_id))


@api.get("/groups/{group_id}", policy="identity:get_group")
async def show_group(call: Call[Identity]) -> Reply:
    """Show a group."""
    return await _GROUPS.shown(call, groups.find)


@api.patch("/groups/{group_id}", dict[str, Any], key="group", policy="identity:update_group")
async def change_group(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Change a group."""
    changes, extra = bodies.read(body, GroupChange, NewGroup)
    return await _GROUPS.changed(
        call, lambda tx, group_id: groups.change(tx, group_id, changes, extra), body
    )


@api.delete("/groups/{group_id}", policy="identity:delete_group")
async def delete_group(call: Call[Identity]) -> Reply:
    """Delete a group."""
    return await _GROUPS.removed(call, groups.remove)


@api.get(_MEMBERS, policy="identity:list_users_in_group")
async def list_members(call: Call[Identity]) -> Reply:
    """List the users of a group."""
    group_id = call.path["group_id"]

    def members(tx: Session) -> Select[UserRow]:
        groups.find(tx, group_id)
        return (
            select(UserRow)
            .join(MemberRow, MemberRow.user_id == UserRow.id)
            .where(MemberRow.group_id == group_id, *users.unheard_of(call.query))
        )

    found, more = await USERS.find(call, members)
    path = _MEMBERS.format(group_id=group_id)
    return Reply(200, listing.body(call, path, "users", found, more=more))


@api.get(_MEMBER, policy="identity:check_user_in_group")
async def check_member(call: Call[Identity]) -> Reply:
    """Tell whether a user is in a group: 204 or 404."""
    await call.service.store.read(lambda tx: groups.check_member(tx, *_member(call)))
    return Reply(204)


@api.put(_MEMBER, policy="identity:add_user_to_group")
async def add_member(call: Call[Identity]) -> Reply:
    """Put a user into a group; again is fine."""
    await call.service.change(lambda tx: groups.add(tx, *_member(call)))
    return Reply(204)


@api.delete(_MEMBER, policy="identity:remove_user_from_group")
async def remove_member(call: Call[Identity]) -> Reply:
    """Take a user out of a group."""
    until = call.service.forget_at(call.service.clock.now())
    await call.service.change(lambda tx: groups.take_out(tx, *_member(call), until=until))
    return Reply(204)


@api.get("/users/{user_id}/groups", policy=None)
async def list_user_groups(call: Call[Identity]) -> Reply:
    """List the groups that a user is in; nobody is in one for a time only."""
    user_id = call.path["user_id"]
    call.require("identity:list_groups_for_user", {"user_id": user_id})

    def of_user(tx: Session) -> Select[GroupRow]:
        users.find(tx, user_id)
        return (
            select(GroupRow)
            .join(MemberRow, MemberRow.group_id == GroupRow.id)
            .where(MemberRow.user_id == user_id)
        )

    found, more = await _GROUPS.find(call, of_user)
    shown = [{**group, "membership_expires_at": None} for group in found]
    return Reply(200, listing.body(call, f"/users/{user_id}/groups", "groups", shown, more=more))


def _member(call: Call[Identity]) -> tuple[str, str]:
    return call.path["group_id"], call.path["user_id"]
