"""/domains. Source: facts/identity_image_placement.md 4.3."""

from __future__ import annotations

from typing import Any

from mooring.identity import bodies, domains, views
from mooring.identity.api.kinds import Kind
from mooring.identity.domains import DomainChange, NewDomain
from mooring.identity.service import Identity
from mooring.identity.tables import DomainRow
from mooring.web.api import Api, Call, Reply

api = Api[Identity]()

_DOMAINS = Kind(
    "domain",
    DomainRow,
    {"id": DomainRow.id, "name": DomainRow.name, "enabled": DomainRow.enabled},
    views.domain,
)


@api.get("/domains", policy="identity:list_domains")
async def list_domains(call: Call[Identity]) -> Reply:
    """List domains."""
    return await _DOMAINS.page(call)


@api.post("/domains", dict[str, Any], key="domain", policy="identity:create_domain")
async def create_domain(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Make a domain."""
    new, extra = bodies.read(body, NewDomain)
    return await _DOMAINS.made(call, lambda tx: domains.create(tx, new, extra))


@api.get("/domains/{domain_id}", policy=None)
async def show_domain(call: Call[Identity]) -> Reply:
    """Show a domain; its own one to everybody."""
    domain_id = call.path["domain_id"]
    call.require("identity:get_domain", {"target.domain.id": domain_id})
    return await _DOMAINS.shown(call, domains.find)


@api.patch("/domains/{domain_id}", dict[str, Any], key="domain", policy="identity:update_domain")
async def change_domain(call: Call[Identity], body: dict[str, Any]) -> Reply:
    """Change a domain."""
    changes, extra = bodies.read(body, DomainChange, NewDomain)
    return await _DOMAINS.changed(
        call, lambda tx, domain_id: domains.change(tx, domain_id, changes, extra), body
    )


@api.delete("/domains/{domain_id}", policy="identity:delete_domain")
async def delete_domain(call: Call[Identity]) -> Reply:
    """Delete a domain that is disabled, with all that is in it."""
    return await _DOMAINS.removed(call, domains.remove)
