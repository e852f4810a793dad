"""/schemas and /info: what the service says of itself."""

from __future__ import annotations

from typing import Any

from mooring.errors import Forbidden, NotFound
from mooring.image import quotas, schemas
from mooring.image.service import Image
from mooring.web.api import Api, Call, Reply

api = Api[Image]()

_SCHEMAS: dict[str, dict[str, Any]] = {
    "image": schemas.IMAGE,
    "images": schemas.collection("images", schemas.IMAGE),
    "member": schemas.MEMBER,
    "members": schemas.collection("members", schemas.MEMBER),
}


@api.get("/schemas/{name}", policy=None)
async def show_schema(call: Call[Image]) -> Reply:
    """Return one JSON schema."""
    schema = _SCHEMAS.get(call.path["name"])
    if schema is None:
        raise NotFound(f"There is no schema {call.path['name'][:64]!r} here.")
    return Reply(200, schema)


@api.get("/info/import", policy=None)
async def show_import(call: Call[Image]) -> Reply:
    """Say that no import method is offered: data are uploaded with PUT."""
    methods: dict[str, Any] = {
        "description": "Import methods available.",
        "type": "array",
        "value": [],
    }
    return Reply(200, {"import-methods": methods})


@api.get("/info/stores", policy=None)
async def show_stores(call: Call[Image]) -> Reply:
    """Say that there is one store, as Glance does where it has only one."""
    raise NotFound("Multi backend is not supported at this site.")


@api.get("/info/usage", policy=None)
async def show_usage(call: Call[Image]) -> Reply:
    """Show what the caller's project has of what is limited, and what it may have."""
    service, project_id = call.service, call.who.project_id
    if not project_id:
        raise Forbidden("Usage is a project's. Ask with a token for a project.")
    quota = await quotas.find(service, project_id)
    found = await service.store.read(lambda tx: quotas.find_usage(tx, quota))
    shown = {name: {"limit": one.limit, "usage": one.usage} for name, one in found.items()}
    return Reply(200, {"usage": shown})
