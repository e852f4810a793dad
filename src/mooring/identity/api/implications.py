"""/roles/{role_id}/implies and /role_inferences. Source: facts/identity_image_placement.md 4.3."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from mooring.identity import implications, roles, views
from mooring.identity.service import Identity
from mooring.identity.tables import ImplicationRow, RoleRow
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

api = Api[Identity]()

_ONE = "/roles/{role_id}/implies/{implied_id}"


@api.get("/roles/{role_id}/implies", policy="identity:list_implied_roles")
async def list_implied_roles(call: Call[Identity]) -> Reply:
    """List the roles that a role implies directly."""
    role_id = call.path["role_id"]
    found = await call.service.store.read(lambda tx: _every(call, tx, role_id))
    links = {"self": call.url(f"/roles/{role_id}/implies")}
    return Reply(200, {"role_inference": found, "links": links})


@api.get(_ONE, policy="identity:get_implied_role")
async def show_implied_role(call: Call[Identity]) -> Reply:
    """Show that a role implies another."""
    return Reply(200, await call.service.store.read(lambda tx: _one(call, tx)))


@api.head(_ONE, policy="identity:check_implied_role")
async def check_implied_role(call: Call[Identity]) -> Reply:
    """Tell whether a role implies another: 204 or 404."""
    await call.service.store.read(lambda tx: _one(call, tx))
    return Reply(204)


@api.put(_ONE, policy="identity:create_implied_role")
async def create_implied_role(call: Call[Identity]) -> Reply:
    """Let a role imply another; again is fine."""

    def write(tx: Session) -> dict[str, Any]:
        implications.create(tx, *_ids(call))
        return _one(call, tx)

    return Reply(201, await call.service.change(write))


@api.delete(_ONE, policy="identity:delete_implied_role")
async def delete_implied_role(call: Call[Identity]) -> Reply:
    """Let a role no longer imply another."""
    until = call.service.forget_at(call.service.clock.now())
    await call.service.change(lambda tx: implications.remove(tx, *_ids(call), until=until))
    return Reply(204)


@api.get("/role_inferences", policy="identity:list_role_inference_rules")
async def list_role_inferences(call: Call[Identity]) -> Reply:
    """List all implications."""

    def read(tx: Session) -> list[dict[str, Any]]:
        priors = tx.scalars(select(ImplicationRow.prior_role_id).distinct())
        return [_every(call, tx, role_id) for role_id in priors]

    found = await call.service.store.read(read)
    links = {"self": call.url("/role_inferences")}
    return Reply(200, {"role_inferences": found, "links": links})


def _ids(call: Call[Identity]) -> tuple[str, str]:
    return call.path["role_id"], call.path["implied_id"]


def _one(call: Call[Identity], tx: Session) -> dict[str, Any]:
    prior, implied = implications.find(tx, *_ids(call))
    inference = {"prior_role": _brief(call, prior), "implies": _brief(call, implied)}
    return {"role_inference": inference, "links": {"self": call.url(_ONE.format(**call.path))}}


def _every(call: Call[Identity], tx: Session, role_id: str) -> dict[str, Any]:
    return {
        "prior_role": _brief(call, roles.find(tx, role_id)),
        "implies": [_brief(call, row) for row in implications.implied_by(tx, role_id)],
    }


def _brief(call: Call[Identity], row: RoleRow) -> dict[str, Any]:
    shown = views.role(call, row)
    return {key: shown[key] for key in ("id", "name", "links")}
