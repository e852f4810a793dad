"""/users. Source: facts/identity_image_placement.md 4.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, Struct

from mooring.errors import Invalid, Unauthenticated
from mooring.identity import bodies, callers, listing, rows, standing, users, views
from mooring.identity.api.kinds import Kind, own_domain
from mooring.identity.callers import Caller
from mooring.identity.service import Identity
from mooring.identity.standing import INVALID
from mooring.identity.tables import ProjectRow, UserRow
from mooring.identity.users import NewUser, UserChange
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

api = Api[Identity]()

USERS = Kind(
    "user",
    UserRow,
    {
        "id": UserRow.id,
        "name": UserRow.name,
        "domain_id": UserRow.domain_id,
        "enabled": UserRow.enabled,
    },
    views.user,
)


class Passwords(Struct, frozen=True):
    """The old password and the new one."""

    original_password: str
    password: str


@api.get("/users", policy="identity:list_users")
async def list_users(call: Call[Identity]) -> Reply:
    """List users."""
    return await USERS.page(call, *users.unheard_of(call.query))


@api.post("/users", dict[str, Any], key="user", policy="identity:create_user")
async def create_user(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Make a user."""
    identity = call.service
    new, extra = bodies.read(body, NewUser)
    hashed = None if new.password is None else await identity.hasher.hash(new.password)
    domain_id = own_domain(call)
    now = identity.clock.now()

    def create(tx: Session) -> UserRow:
        return users.create(tx, new, extra, domain_id=domain_id, password_hash=hashed, now=now)

    return await USERS.made(call, create)


@api.get("/users/{user_id}", policy=None)
async def show_user(call: Call[Identity]) -> Reply:
    """Show a user; themselves to everybody."""
    user_id = call.path["user_id"]
    call.require("identity:get_user", {"user_id": user_id})
    return await USERS.shown(call, users.find)


@api.patch("/users/{user_id}", dict[str, Any], key="user", policy="identity:update_user")
async def change_user(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Change a user."""
    changes, extra = bodies.read(body, UserChange, NewUser)
    hashed = None
    if changes.password is not UNSET and changes.password is not None:
        hashed = await call.service.hasher.hash(changes.password)

    def change(tx: Session, user_id: str) -> UserRow:
        return users.change(tx, user_id, changes, extra, password_hash=hashed)

    return await USERS.changed(call, change, body)


@api.delete("/users/{user_id}", policy="identity:delete_user")
async def delete_user(call: Call[Identity]) -> Reply:
    """Delete a user."""
    return await USERS.removed(call, users.remove)


@api.post("/users/{user_id}/password", Passwords, key="user", policy=None, open=True)
async def change_password(call: Call[Identity], passwords: Passwords) -> Reply:
    """Change one's own password: the old one is the proof, no token is needed."""
    identity, user_id = call.service, call.path["user_id"]
    old = await identity.store.read(lambda tx: users.password_hash(tx, user_id))
    shown = passwords.original_password
    if not await callers.prove(identity, f"user {user_id}", shown, old, Caller.of(call)):
        raise Unauthenticated(INVALID, private=f"a wrong old password for {user_id}")
    if passwords.password == passwords.original_password:
        raise Invalid("The new password is the old one. Choose another.")
    hashed = await identity.hasher.hash(passwords.password)
    await identity.change(lambda tx: users.change_password(tx, user_id, before=old, after=hashed))
    return Reply(204)


@api.get("/users/{user_id}/projects", policy=None)
async def list_user_projects(call: Call[Identity]) -> Reply:
    """List the projects that a user has a role on."""
    user_id = call.path["user_id"]
    call.require("identity:list_user_projects", {"user_id": user_id})

    def read(tx: Session) -> list[dict[str, Any]]:
        users.find(tx, user_id)
        ids = standing.scopes(tx, user_id, "project")
        return [views.project(call, row) for row in rows.find_all(tx, ProjectRow, ids)]

    found = await call.service.store.read(read)
    return Reply(200, listing.body(call, f"/users/{user_id}/projects", "projects", found))
