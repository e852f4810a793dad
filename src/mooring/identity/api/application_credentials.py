"""/users/{user_id}/application_credentials. Source: facts/identity_image_placement.md 2.4."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from mooring.identity import credentials, listing, passwords, tokens, users, views
from mooring.identity.credentials import NewCredential
from mooring.identity.service import Identity
from mooring.identity.standing import Standing
from mooring.identity.tables import RoleRow
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

api = Api[Identity]()

_SEVERAL = "/users/{user_id}/application_credentials"
_ONE = _SEVERAL + "/{credential_id}"
_SECRET_BYTES = 64


@api.get(_SEVERAL, policy=None)
async def list_credentials(call: Call[Identity]) -> Reply:
    """List a user's application credentials."""
    user_id = call.path["user_id"]
    call.require("identity:list_application_credentials", {"user_id": user_id})

    def read(tx: Session) -> list[dict[str, Any]]:
        users.find(tx, user_id)
        rows = credentials.of_user(tx, user_id, call.query.get("name"))
        known = _roles(call, tx)
        return [views.credential(call, row, known) for row in rows]

    found = await call.service.store.read(read)
    path = _SEVERAL.format(user_id=user_id)
    return Reply(200, listing.body(call, path, "application_credentials", found))


@api.post(_SEVERAL, NewCredential, key="application_credential", policy=None)
async def create_credential(call: Call[Identity], new: NewCredential) -> Reply:
    """Make an application credential; its secret is shown this once."""
    identity = call.service
    call.require("identity:create_application_credential", {"user_id": call.path["user_id"]})
    secret, hashed = await _secret(identity, new.secret)
    now = identity.clock.now()

    def create(tx: Session) -> dict[str, Any]:
        known = _roles(call, tx)
        # Held before it is seen what they give: nobody takes it until the credential is there.
        credentials.hold(tx, call.path["user_id"])
        row = credentials.create(tx, _worth(call, tx), new, secret_hash=hashed, now=now)
        return views.credential(call, row, known)

    made = await identity.change(create)
    return Reply(201, {"application_credential": {**made, "secret": secret}})


@api.get(_ONE, policy=None)
async def show_credential(call: Call[Identity]) -> Reply:
    """Show an application credential."""
    user_id, credential_id = call.path["user_id"], call.path["credential_id"]
    call.require("identity:get_application_credential", {"user_id": user_id})

    def read(tx: Session) -> dict[str, Any]:
        row = credentials.visible(tx, user_id, credential_id)
        return views.credential(call, row, _roles(call, tx))

    return Reply(200, {"application_credential": await call.service.store.read(read)})


@api.delete(_ONE, policy=None)
async def delete_credential(call: Call[Identity]) -> Reply:
    """Delete an application credential; what was made from it ends at once."""
    user_id, credential_id = call.path["user_id"], call.path["credential_id"]
    call.require("identity:delete_application_credential", {"user_id": user_id})

    def remove(tx: Session) -> None:
        credentials.refuse_restricted(_worth(call, tx))
        credentials.remove(tx, user_id, credential_id)

    await call.service.change(remove)
    return Reply(204)


async def _secret(identity: Identity, chosen: str | None) -> tuple[str, str]:
    """Return the secret that somebody chose, or else a new one, and its hash."""
    if chosen is None:
        return passwords.make_secret(_SECRET_BYTES)
    return chosen, await identity.hasher.hash(chosen)


def _worth(call: Call[Identity], tx: Session) -> Standing:
    token = tokens.read(call.service, call.who.token)
    return tokens.check(tx, token, call.service.clock.now())


def _roles(call: Call[Identity], tx: Session) -> dict[str, dict[str, Any]]:
    return {row.id: views.role(call, row) for row in tx.scalars(select(RoleRow))}
