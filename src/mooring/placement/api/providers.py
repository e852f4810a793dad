"""/resource_providers and what belongs to one provider alone: aggregates, usages, allocations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

from msgspec import Meta, Struct

from mooring.errors import Invalid
from mooring.placement import allocations, candidates, catalogue, inventories, providers, query
from mooring.placement.api import views
from mooring.placement.api.views import Generation, Uuid
from mooring.placement.service import Placement
from mooring.web.api import Api, Call, Reply
from mooring.web.bodies import Since

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

api = Api[Placement]()

Name = Annotated[str, Meta(min_length=1, max_length=200)]
_FILTERS: dict[str, query.Version] = {
    "name": (1, 0),
    "uuid": (1, 0),
    "member_of": (1, 3),
    "resources": (1, 4),
    "in_tree": (1, 14),
    "required": (1, 18),
}


class NewProvider(Struct, frozen=True, forbid_unknown_fields=True):
    """A provider to make."""

    name: Name
    uuid: Uuid | None = None
    parent_provider_uuid: Annotated[Uuid | None, Since(1, 14)] = None


class ChangedProvider(Struct, frozen=True, forbid_unknown_fields=True):
    """The new name of a provider."""

    name: Name
    parent_provider_uuid: Annotated[Uuid | None, Since(1, 14)] = None


class Aggregates(Struct, frozen=True, forbid_unknown_fields=True):
    """The aggregates of a provider, from 1.19 on."""

    resource_provider_generation: Generation
    aggregates: list[Uuid]


@api.get("/resource_providers", policy="placement:resource_providers:list")
async def list_providers(call: Call[Placement]) -> Reply:
    """Return the providers that the filters let through."""
    query.check_keys(call.query, _FILTERS, call.version)
    wanted = query.read_wanted(call.query, call.version)
    name = query.single(call.query, "name") or ""
    uuid = query.single(call.query, "uuid")
    provider_id = "" if uuid is None else query.read_uuid(uuid, "uuid")

    def read(tx: Session) -> list[providers.Provider]:
        candidates.check_names(tx, [wanted])
        asked = wanted != query.Wanted()
        ids = list(candidates.matching(tx, [wanted], [wanted.resources])) if asked else None
        return providers.listed(tx, ids=ids, name=name, provider_id=provider_id)

    shown = await call.service.store.read(read)
    body = {"resource_providers": [views.provider(call, each) for each in shown]}
    return views.answer(call, body, modified=views.newest(shown))


@api.post("/resource_providers", NewProvider, policy="placement:resource_providers:create")
async def create_provider(call: Call[Placement], body: NewProvider) -> Reply:
    """Make a provider; from 1.20 on the answer shows it."""
    _refuse_parent(body.parent_provider_uuid, "")
    return await _create(call, body.name, body.uuid)


@api.get("/resource_providers/{provider_id}", policy="placement:resource_providers:show")
async def show_provider(call: Call[Placement]) -> Reply:
    """Return one provider."""
    provider_id = call.path["provider_id"]
    shown = await call.service.store.read(lambda tx: providers.visible(tx, provider_id))
    return views.answer(call, views.provider(call, shown), modified=shown.updated_at)


@api.put(
    "/resource_providers/{provider_id}",
    ChangedProvider,
    policy="placement:resource_providers:update",
)
async def change_provider(call: Call[Placement], body: ChangedProvider) -> Reply:
    """Give a provider another name; its parent stays nobody."""
    _refuse_parent(body.parent_provider_uuid, call.path["provider_id"])
    return await _rename(call, body.name)


@api.delete("/resource_providers/{provider_id}", policy="placement:resource_providers:delete")
async def delete_provider(call: Call[Placement]) -> Reply:
    """Delete a provider from which nothing is allocated."""
    provider_id = call.path["provider_id"]
    await call.service.store.write(lambda tx: providers.remove(tx, provider_id))
    return Reply(204)


@api.get(
    "/resource_providers/{provider_id}/aggregates",
    policy="placement:resource_providers:aggregates:list",
    since=(1, 1),
)
async def list_aggregates(call: Call[Placement]) -> Reply:
    """Return the aggregates that a provider is in."""
    provider_id = call.path["provider_id"]

    def read(tx: Session) -> tuple[providers.Provider, list[str]]:
        return providers.visible(tx, provider_id), catalogue.provider_aggregates(tx, provider_id)

    return _aggregates(call, *await call.service.store.read(read))


@api.put(
    "/resource_providers/{provider_id}/aggregates",
    list[Uuid],
    policy="placement:resource_providers:aggregates:update",
    since=(1, 1),
    until=(1, 18),
)
async def set_aggregates(call: Call[Placement], body: list[Uuid]) -> Reply:
    """Replace the aggregates of a provider, whatever its generation."""
    return await _set_aggregates(call, body, None)


@api.put(
    "/resource_providers/{provider_id}/aggregates",
    Aggregates,
    policy="placement:resource_providers:aggregates:update",
    since=(1, 19),
)
async def set_aggregates_guarded(call: Call[Placement], body: Aggregates) -> Reply:
    """Replace the aggregates of a provider at the generation that the caller saw."""
    return await _set_aggregates(call, body.aggregates, body.resource_provider_generation)


@api.get("/resource_providers/{provider_id}/usages", policy="placement:resource_providers:usages")
async def show_usages(call: Call[Placement]) -> Reply:
    """Return how much of each class of a provider is allocated."""
    provider_id = call.path["provider_id"]

    def read(tx: Session) -> tuple[providers.Provider, dict[str, int]]:
        shown = providers.visible(tx, provider_id)
        used = inventories.uses(tx, [provider_id])
        stocks = inventories.of_provider(tx, provider_id)
        return shown, {name: used.get((provider_id, name), 0) for name in stocks}

    shown, used = await call.service.store.read(read)
    body = {"resource_provider_generation": shown.generation, "usages": used}
    return views.answer(call, body, modified=shown.updated_at)


def _generation(call: Call[Placement], generation: int) -> dict[str, Any]:
    """Show a consumer's generation to those whose version knows it."""
    return {"consumer_generation": generation} if call.version >= (1, 28) else {}


@api.get(
    "/resource_providers/{provider_id}/allocations",
    policy="placement:resource_providers:allocations:list",
)
async def list_allocations(call: Call[Placement]) -> Reply:
    """Return who holds what of a provider."""
    provider_id = call.path["provider_id"]

    def read(
        tx: Session,
    ) -> tuple[providers.Provider, tuple[allocations.Amounts, dict[str, int]]]:
        return providers.visible(tx, provider_id), allocations.of_provider(tx, provider_id)

    shown, (held, generations) = await call.service.store.read(read)
    consumers = {
        consumer_id: {"resources": resources, **_generation(call, generations[consumer_id])}
        for consumer_id, resources in held.items()
    }
    body = {"allocations": consumers, "resource_provider_generation": shown.generation}
    return views.answer(call, body, modified=shown.updated_at)


async def _create(call: Call[Placement], name: str, uuid: str | None) -> Reply:
    provider_id, now = uuid or str(uuid4()), call.service.clock.now()
    shown = await call.service.store.write(lambda tx: providers.create(tx, provider_id, name, now))
    location = {"location": call.url(f"/resource_providers/{provider_id}")}
    if call.version < (1, 20):
        return Reply(201, headers=location)
    reply = views.answer(call, views.provider(call, shown), modified=shown.updated_at)
    return Reply(reply.status, reply.body, reply.headers | location)


async def _rename(call: Call[Placement], name: str) -> Reply:
    provider_id, now = call.path["provider_id"], call.service.clock.now()
    shown = await call.service.store.write(lambda tx: providers.rename(tx, provider_id, name, now))
    return views.answer(call, views.provider(call, shown), modified=shown.updated_at)


async def _set_aggregates(call: Call[Placement], wanted: list[str], seen: int | None) -> Reply:
    if len(set(wanted)) != len(wanted):
        raise Invalid("An aggregate is named twice. Name each aggregate once.")
    provider_id, now = call.path["provider_id"], call.service.clock.now()

    def write(tx: Session) -> tuple[providers.Provider, list[str]]:
        providers.visible(tx, provider_id)
        # Below 1.19 the call knew no generation, so it does not raise it either.
        if seen is not None:
            providers.advance(tx, provider_id, now, seen=seen)
        catalogue.set_aggregates(tx, provider_id, wanted)
        return providers.visible(tx, provider_id), catalogue.provider_aggregates(tx, provider_id)

    return _aggregates(call, *await call.service.store.write(write))


def _aggregates(call: Call[Placement], shown: providers.Provider, there: list[str]) -> Reply:
    body: dict[str, Any] = {"aggregates": there}
    if call.version >= (1, 19):
        body["resource_provider_generation"] = shown.generation
    return views.answer(call, body, modified=shown.updated_at)


def _refuse_parent(parent_id: str | None, provider_id: str) -> None:
    if parent_id is not None and parent_id != provider_id:
        raise Invalid(
            "Providers inside providers are not built here: leave parent_provider_uuid out, and "
            "give the provider inventory of its own."
        )
