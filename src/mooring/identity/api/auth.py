"""/auth: logging in, tokens, and what a token's owner may reach.

Source: facts/identity_image_placement.md 2 and 3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.errors import NotFound, Unauthenticated
from mooring.identity import (
    catalogue,
    listing,
    login,
    rows,
    standing,
    tokens,
    views,
)
from mooring.identity.callers import Caller
from mooring.identity.service import Identity
from mooring.identity.standing import SYSTEM, Place, Standing
from mooring.identity.tables import DomainRow, ProjectRow
from mooring.identity.tokens import Token
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

api = Api[Identity]()

_VARY = {"vary": "X-Auth-Token"}
_NOT_FOUND = "Could not recognize the token."


@api.post("/auth/tokens", login.Auth, key="auth", policy=None, open=True)
async def log_in(call: Call[Identity], body: login.Auth) -> Reply:
    """Make a token."""
    token, worth = await login.log_in(call.service, body, Caller.of(call))
    text = tokens.issue(call.service, token)
    told = {
        "user_id": token.user_id,
        "user": worth.user.name,
        "scope": token.scope,
        "by": " ".join(token.methods),
        "credential_id": token.credential_id,
        "token": token.audit_ids[0],
    }
    headers = {**_VARY, "x-subject-token": text}
    return Reply(201, await _body(call, token, worth), headers, told=told)


@api.get("/auth/tokens", policy=None)
async def show_token(call: Call[Identity]) -> Reply:
    """Show what a token says. HEAD tells no more than that it is valid."""
    text, token, worth = await _subject(call)
    call.require("identity:validate_token", {"user_id": token.user_id})
    return Reply(200, await _body(call, token, worth), {**_VARY, "x-subject-token": text})


@api.delete("/auth/tokens", policy=None)
async def revoke_token(call: Call[Identity]) -> Reply:
    """End a token."""
    _, token, _ = await _subject(call)
    call.require("identity:revoke_token", {"user_id": token.user_id})
    now = call.service.clock.now()
    await call.service.change(lambda tx: tokens.revoke(tx, token, now))
    return Reply(204)


@api.get("/auth/catalog", policy="identity:get_auth_catalog")
async def show_catalog(call: Call[Identity]) -> Reply:
    """Show the catalogue that the caller's token carries."""
    who = call.who
    if not (who.project_id or who.system_scope):
        token = tokens.read(call.service, who.token)
        if not token.scope:
            raise NotFound("The token has no scope, so it has no catalogue.")
    found = await call.service.store.read(lambda tx: catalogue.entries(tx, who.project_id))
    return Reply(200, {"catalog": found, "links": {"self": call.url("/auth/catalog")}})


@api.get("/auth/projects", policy="identity:get_auth_projects")
async def list_projects(call: Call[Identity]) -> Reply:
    """List the projects that the caller has a role on."""

    def read(tx: Session) -> list[dict[str, Any]]:
        ids = standing.scopes(tx, call.who.user_id, "project")
        found = rows.find_all(tx, ProjectRow, ids)
        return [views.project(call, row) for row in found if row.enabled]

    found = await call.service.store.read(read)
    return Reply(200, listing.body(call, "/auth/projects", "projects", found))


@api.get("/auth/domains", policy="identity:get_auth_domains")
async def list_domains(call: Call[Identity]) -> Reply:
    """List the domains that the caller has a role on."""

    def read(tx: Session) -> list[dict[str, Any]]:
        ids = standing.scopes(tx, call.who.user_id, "domain")
        found = rows.find_all(tx, DomainRow, ids)
        return [views.domain(call, row) for row in found if row.enabled]

    found = await call.service.store.read(read)
    return Reply(200, listing.body(call, "/auth/domains", "domains", found))


@api.get("/auth/system", policy="identity:get_auth_system")
async def show_system(call: Call[Identity]) -> Reply:
    """Tell whether the caller has a role on the system."""
    found = await call.service.store.read(
        lambda tx: standing.scopes(tx, call.who.user_id, "system")
    )
    system = [{"all": True}] if found else []
    return Reply(200, {"system": system, "links": {"self": call.url("/auth/system")}})


async def _subject(call: Call[Identity]) -> tuple[str, Token, Standing]:
    """Return the token that the call is about. Raises NotFound when it is not valid."""
    text = call.request.headers.get("x-subject-token", "")
    late = listing.is_true(call.query, "allow_expired")
    now = call.service.clock.now()
    try:
        token = tokens.read(call.service, text)
        worth = await call.service.store.read(
            lambda tx: tokens.check(tx, token, now, allow_expired=late)
        )
    except Unauthenticated as error:
        raise NotFound(_NOT_FOUND, private=error.private) from error
    return text, token, worth


async def _body(call: Call[Identity], token: Token, worth: Standing) -> dict[str, Any]:
    body: dict[str, Any] = {
        "methods": list(token.methods),
        "user": {**_place(worth.user), "password_expires_at": None},
        "audit_ids": list(token.shown_audit_ids),
        "issued_at": views.time(token.issued_at),
        "expires_at": views.time(token.expires_at),
    }
    kind, _, place_id = token.scope.partition(":")
    if token.scope == SYSTEM:
        body["system"] = {"all": True}
    elif worth.place is not None:
        body[kind] = _place(worth.place)
        body["is_domain"] = False
    if token.scope:
        body["roles"] = [{"id": role_id, "name": name} for role_id, name in worth.roles]
        if "nocatalog" not in call.query:
            project_id = place_id if kind == "project" else ""
            body["catalog"] = await call.service.store.read(
                lambda tx: catalogue.entries(tx, project_id)
            )
    if worth.credential is not None:
        body["application_credential"] = {
            "id": worth.credential.id,
            "name": worth.credential.name,
            "restricted": not worth.credential.unrestricted,
        }
    return {"token": body}


def _place(place: Place) -> dict[str, Any]:
    shown: dict[str, Any] = {"id": place.id, "name": place.name}
    if place.domain_id:
        shown["domain"] = {"id": place.domain_id, "name": place.domain_name}
    return shown
