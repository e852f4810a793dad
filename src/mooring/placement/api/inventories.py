"""/resource_providers/{provider_id}/inventories."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType, structs

from mooring.errors import NotFound
from mooring.placement import inventories, providers
from mooring.placement.api import views
from mooring.placement.api.views import Generation
from mooring.placement.inventories import Inventory
from mooring.placement.service import Placement
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

api = Api[Placement]()

ALL_RESERVED = (1, 26)
"""From here on the whole of an inventory may be reserved."""
_ALL = "/resource_providers/{provider_id}/inventories"
_ONE = "/resource_providers/{provider_id}/inventories/{resource_class}"


class Inventories(views.Generated, frozen=True, forbid_unknown_fields=True):
    """All that a provider is to have, by class."""

    inventories: dict[str, Inventory]


class OneInventory(Inventory, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One class of a provider, at the generation that the caller saw."""

    resource_provider_generation: Generation


class NewInventory(Inventory, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One more class of a provider, which nobody can have changed before it is there."""

    resource_class: str
    resource_provider_generation: Generation | UnsetType = UNSET


@api.get(_ALL, policy="placement:resource_providers:inventories:list")
async def list_inventories(call: Call[Placement]) -> Reply:
    """Return what a provider has, by class."""
    shown, there = await _read(call)
    return _all(call, there, shown.generation, shown.updated_at)


@api.put(_ALL, Inventories, policy="placement:resource_providers:inventories:update")
async def replace_inventories(call: Call[Placement], body: Inventories) -> Reply:
    """Make a provider have exactly this."""
    return await _replace(call, body.inventories, body.resource_provider_generation)


@api.delete(_ALL, policy="placement:resource_providers:inventories:delete", since=(1, 5))
async def delete_inventories(call: Call[Placement]) -> Reply:
    """Make a provider have nothing."""
    provider_id, now = call.path["provider_id"], call.service.clock.now()
    await call.service.store.write(lambda tx: inventories.remove(tx, provider_id, None, now))
    return Reply(204)


@api.post(_ALL, NewInventory, policy="placement:resource_providers:inventories:create")
async def create_inventory(call: Call[Placement], body: NewInventory) -> Reply:
    """Add one class to a provider."""
    name = body.resource_class
    reply = await _put(call, name, body, new=True)
    route = f"/resource_providers/{call.path['provider_id']}/inventories/{name}"
    return Reply(201, reply.body, reply.headers | {"location": call.url(route)})


@api.get(_ONE, policy="placement:resource_providers:inventories:show")
async def show_inventory(call: Call[Placement]) -> Reply:
    """Return how much of one class a provider has."""
    shown, there = await _read(call)
    name = call.path["resource_class"]
    if name not in there:
        raise NotFound(f"No inventory of class {name[:64]} for {shown.id} found.")
    return _one(call, there[name], shown.generation, shown.updated_at)


@api.put(_ONE, OneInventory, policy="placement:resource_providers:inventories:update")
async def change_inventory(call: Call[Placement], body: OneInventory) -> Reply:
    """Change how much of one class a provider has."""
    return await _put(call, call.path["resource_class"], body, new=False)


@api.delete(_ONE, policy="placement:resource_providers:inventories:delete")
async def delete_inventory(call: Call[Placement]) -> Reply:
    """Take one class from a provider."""
    provider_id, name = call.path["provider_id"], call.path["resource_class"]
    now = call.service.clock.now()
    await call.service.store.write(lambda tx: inventories.remove(tx, provider_id, name, now))
    return Reply(204)


async def _read(call: Call[Placement]) -> tuple[providers.Provider, dict[str, Inventory]]:
    provider_id = call.path["provider_id"]

    def read(tx: Session) -> tuple[providers.Provider, dict[str, Inventory]]:
        return providers.visible(tx, provider_id), inventories.of_provider(tx, provider_id)

    return await call.service.store.read(read)


async def _replace(call: Call[Placement], wanted: dict[str, Inventory], seen: int) -> Reply:
    inventories.check(wanted, all_reserved=call.version >= ALL_RESERVED)
    provider_id, now = call.path["provider_id"], call.service.clock.now()

    def write(tx: Session) -> int:
        return inventories.replace(tx, provider_id, wanted, seen=seen, now=now)

    return _all(call, wanted, await call.service.store.write(write), now)


async def _put(
    call: Call[Placement], name: str, body: OneInventory | NewInventory, *, new: bool
) -> Reply:
    wanted = Inventory(**{field: getattr(body, field) for field in Inventory.__struct_fields__})
    inventories.check({name: wanted}, all_reserved=call.version >= ALL_RESERVED)
    provider_id, now = call.path["provider_id"], call.service.clock.now()
    told = body.resource_provider_generation
    seen = None if told is UNSET else told

    def write(tx: Session) -> int:
        return inventories.put(tx, provider_id, name, wanted, seen=seen, now=now, new=new)

    return _one(call, wanted, await call.service.store.write(write), now)


def _all(
    call: Call[Placement], there: dict[str, Inventory], generation: int, modified: datetime
) -> Reply:
    body = {"inventories": there, "resource_provider_generation": generation}
    return views.answer(call, body, modified=modified)


def _one(call: Call[Placement], there: Inventory, generation: int, modified: datetime) -> Reply:
    body: dict[str, Any] = structs.asdict(there) | {"resource_provider_generation": generation}
    return views.answer(call, body, modified=modified)
