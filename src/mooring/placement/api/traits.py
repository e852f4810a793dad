"""/traits, and the traits of a resource provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.errors import Invalid, NotFound
from mooring.placement import catalogue, providers, query
from mooring.placement.api import views
from mooring.placement.names import BAD_VALUE
from mooring.placement.service import Placement
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

api = Api[Placement]()

_FILTERS: dict[str, query.Version] = {"name": (1, 6), "associated": (1, 6)}
_OF_PROVIDER = "/resource_providers/{provider_id}/traits"


class Traits(views.Generated, frozen=True, forbid_unknown_fields=True):
    """The traits of a provider, at the generation that the caller saw."""

    traits: list[str]


@api.get("/traits", policy="placement:traits:list", since=(1, 6))
async def list_traits(call: Call[Placement]) -> Reply:
    """Return the names of the traits that the filters let through."""
    query.check_keys(call.query, _FILTERS, call.version)
    associated = _read_flag(query.single(call.query, "associated"))
    found = await call.service.store.read(lambda tx: catalogue.traits(tx, associated=associated))
    shown = _filter(found, query.single(call.query, "name"))
    return views.answer(call, {"traits": shown})


@api.get("/traits/{name}", policy="placement:traits:show", since=(1, 6))
async def show_trait(call: Call[Placement]) -> Reply:
    """Tell that a trait exists."""
    name = call.path["name"]
    if not await call.service.store.read(lambda tx: catalogue.has_trait(tx, name)):
        raise NotFound(f"No such trait: {name[:64]}.")
    reply = views.answer(call, None, status=204)
    return Reply(204, headers=reply.headers)


@api.put("/traits/{name}", policy="placement:traits:update", since=(1, 6))
async def create_trait(call: Call[Placement]) -> Reply:
    """Make a custom trait, or find it there."""
    name, now = call.path["name"], call.service.clock.now()
    made = await call.service.store.write(lambda tx: catalogue.make_trait(tx, name, now))
    return Reply(201 if made else 204, headers={"location": call.url(f"/traits/{name}")})


@api.delete("/traits/{name}", policy="placement:traits:delete", since=(1, 6))
async def delete_trait(call: Call[Placement]) -> Reply:
    """Delete a custom trait that no provider has."""
    name = call.path["name"]
    await call.service.store.write(lambda tx: catalogue.remove_trait(tx, name))
    return Reply(204)


@api.get(_OF_PROVIDER, policy="placement:resource_providers:traits:list", since=(1, 6))
async def list_provider_traits(call: Call[Placement]) -> Reply:
    """Return what a provider can do."""
    provider_id = call.path["provider_id"]

    def read(tx: Session) -> tuple[providers.Provider, list[str]]:
        shown = providers.visible(tx, provider_id)
        return shown, catalogue.provider_traits(tx, [provider_id])[provider_id]

    shown, traits = await call.service.store.read(read)
    body = {"traits": traits, "resource_provider_generation": shown.generation}
    return views.answer(call, body, modified=shown.updated_at)


@api.put(_OF_PROVIDER, Traits, policy="placement:resource_providers:traits:update", since=(1, 6))
async def set_provider_traits(call: Call[Placement], body: Traits) -> Reply:
    """Replace what a provider can do."""
    provider_id, now = call.path["provider_id"], call.service.clock.now()

    def write(tx: Session) -> int:
        seen = body.resource_provider_generation
        return catalogue.set_traits(tx, provider_id, body.traits, seen=seen, now=now)

    generation = await call.service.store.write(write)
    shown = {"traits": sorted(set(body.traits)), "resource_provider_generation": generation}
    return views.answer(call, shown, modified=now)


@api.delete(_OF_PROVIDER, policy="placement:resource_providers:traits:delete", since=(1, 6))
async def delete_provider_traits(call: Call[Placement]) -> Reply:
    """Take all traits from a provider, whatever its generation."""
    provider_id, now = call.path["provider_id"], call.service.clock.now()
    await call.service.store.write(
        lambda tx: catalogue.set_traits(tx, provider_id, (), seen=None, now=now)
    )
    return Reply(204)


def _read_flag(text: str | None) -> bool | None:
    if text is None:
        return None
    flag = {"true": True, "1": True, "false": False, "0": False}.get(text.lower())
    if flag is None:
        raise Invalid(
            f"The query parameter associated is true or false, not {text[:64]!r}.", code=BAD_VALUE
        )
    return flag


def _filter(found: list[str], name: str | None) -> list[str]:
    if name is None:
        return found
    kind, colon, value = name.partition(":")
    if colon and kind == "startswith":
        return [each for each in found if each.startswith(value)]
    if colon and kind == "in":
        wanted = set(value.split(","))
        return [each for each in found if each in wanted]
    raise Invalid(
        "Badly formatted name parameter. Expected name query string parameter in form: "
        f"?name=[in|startswith]:[name1,name2|prefix]. Got: {name[:64]!r}.",
        code=BAD_VALUE,
    )
