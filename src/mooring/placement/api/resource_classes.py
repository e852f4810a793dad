"""/resource_classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mooring.errors import Conflict
from mooring.placement import catalogue
from mooring.placement.api import views
from mooring.placement.service import Placement
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

api = Api[Placement]()

_ONE = "/resource_classes/{name}"


class ResourceClass(Struct, frozen=True, forbid_unknown_fields=True):
    """A resource class that is to be made, or the new name of one."""

    name: str


@api.get("/resource_classes", policy="placement:resource_classes:list", since=(1, 2))
async def list_classes(call: Call[Placement]) -> Reply:
    """Return all resource classes."""
    found = await call.service.store.read(catalogue.resource_classes)
    return views.answer(call, {"resource_classes": [_show(call, name) for name in found]})


@api.post(
    "/resource_classes", ResourceClass, policy="placement:resource_classes:create", since=(1, 2)
)
async def create_class(call: Call[Placement], body: ResourceClass) -> Reply:
    """Make a custom resource class."""
    if not await _make(call, body.name):
        raise Conflict(f"Conflicting resource class already exists: {body.name}.")
    return Reply(201, headers=_location(call, body.name))


@api.get(_ONE, policy="placement:resource_classes:show", since=(1, 2))
async def show_class(call: Call[Placement]) -> Reply:
    """Return one resource class."""
    name = call.path["name"]
    await call.service.store.read(lambda tx: catalogue.check_class(tx, name))
    return views.answer(call, _show(call, name))


@api.put(
    _ONE,
    ResourceClass,
    policy="placement:resource_classes:update",
    since=(1, 2),
    until=(1, 6),
)
async def rename_class(call: Call[Placement], body: ResourceClass) -> Reply:
    """Give a custom resource class another name."""
    name, now = call.path["name"], call.service.clock.now()

    def write(tx: Session) -> None:
        catalogue.rename_class(tx, name, body.name, now)

    await call.service.store.write(write)
    return views.answer(call, _show(call, body.name))


@api.put(_ONE, policy="placement:resource_classes:update", since=(1, 7))
async def ensure_class(call: Call[Placement]) -> Reply:
    """Make a custom resource class, or find it there."""
    name = call.path["name"]
    made = await _make(call, name)
    return Reply(201 if made else 204, headers=_location(call, name))


@api.delete(_ONE, policy="placement:resource_classes:delete", since=(1, 2))
async def delete_class(call: Call[Placement]) -> Reply:
    """Delete a custom resource class of which nobody has inventory."""
    name = call.path["name"]
    await call.service.store.write(lambda tx: catalogue.remove_class(tx, name))
    return Reply(204)


async def _make(call: Call[Placement], name: str) -> bool:
    now = call.service.clock.now()
    return await call.service.store.write(lambda tx: catalogue.make_class(tx, name, now))


def _show(call: Call[Placement], name: str) -> dict[str, Any]:
    links = [{"rel": "self", "href": views.path(call, f"/resource_classes/{name}")}]
    return {"name": name, "links": links}


def _location(call: Call[Placement], name: str) -> dict[str, str]:
    return {"location": call.url(f"/resource_classes/{name}")}
