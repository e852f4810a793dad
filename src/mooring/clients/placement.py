"""The placement service, as its callers see it: ours, or a real one. Always as the service user.

Source: facts/identity_image_placement.md 9.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

from msgspec import Struct, to_builtins

from mooring import typed
from mooring.errors import Conflict, NoCapacity, NotFound, Unavailable
from mooring.limits import PLACEMENT_ATTEMPTS

if TYPE_CHECKING:
    from mooring.clients.session import Session
    from mooring.fence.operation import Operation

T = TypeVar("T")
VERSION = "1.36"
"""The version that a real Nova schedules with, so that any placement it works with has it."""

Resources = Mapping[str, int]
"""Amounts by resource class: VCPU (pieces), MEMORY_MB (MiB), DISK_GB (GiB), ..."""
Allocations = Mapping[str, Resources]
"""Resources by the id of the provider that gives them."""


class Provider(Struct, frozen=True):
    """One resource provider: a host that gives resources."""

    uuid: str
    name: str
    generation: int
    parent_provider_uuid: str | None = None
    root_provider_uuid: str | None = None


class Inventory(Struct, frozen=True):
    """How much of one class a provider has: capacity is (total - reserved) * allocation_ratio."""

    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = 2147483647
    step_size: int = 1
    allocation_ratio: float = 1.0


class Use(Struct, frozen=True):
    """How much of one class of a provider there is, after the ratio, and is taken."""

    capacity: int = 0
    used: int = 0


class Summary(Struct, frozen=True):
    """What a provider of a candidate looks like, to weigh it by."""

    resources: dict[str, Use] = {}
    traits: frozenset[str] = frozenset()


class Candidate(Struct, frozen=True):
    """One way to place what was asked for: `allocations` can be given to `claim` as they are."""

    allocations: dict[str, dict[str, int]]
    summaries: dict[str, Summary] = {}

    @property
    def provider_id(self) -> str:
        """The provider of a candidate that needs only one, as ours do."""
        return next(iter(self.allocations))


class Claim(Struct, frozen=True):
    """What a consumer (a server, a migration) holds; without allocations it holds nothing."""

    allocations: dict[str, dict[str, int]]
    project_id: str = ""
    user_id: str = ""
    generation: int | None = None


NOTHING = Claim({})


class PlacementClient:
    """Calls to the placement API; each raises one of the nine kinds of `mooring.errors`.

    Every change may be repeated: what already stands as asked is success. Conflicts that only say
    "somebody else was faster" are read again and tried again, and after `PLACEMENT_ATTEMPTS` are
    Unavailable, so that the saga's step comes back later.
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    async def candidates(
        self,
        resources: Resources,
        required: Collection[str] = (),
        limit: int = 1000,
        *,
        in_tree: str = "",
    ) -> list[Candidate]:
        """Return where the resources fit, in no order that means anything; [] when nowhere.

        `required` traits may be forbidden with a leading "!". `in_tree` asks about one provider.
        """
        wanted = {"resources": ",".join(f"{name}:{count}" for name, count in resources.items())}
        needed = ",".join(required)
        wanted |= {"limit": str(limit), "required": needed, "in_tree": in_tree}
        query = urlencode({key: value for key, value in wanted.items() if value})
        body = await self._get(f"/allocation_candidates?{query}")
        summaries = typed.convert(body["provider_summaries"], dict[str, Summary])
        return [_candidate(request, summaries) for request in body["allocation_requests"]]

    async def allocations(self, consumer_id: str) -> Claim:
        """Return what a consumer holds; `NOTHING` for one that placement does not know."""
        body = await self._get(f"/allocations/{_part(consumer_id)}")
        if not body.get("allocations"):
            return NOTHING
        return Claim(
            {uuid: dict(given["resources"]) for uuid, given in body["allocations"].items()},
            body.get("project_id", ""),
            body.get("user_id", ""),
            body.get("consumer_generation"),
        )

    async def claim(
        self,
        consumer_id: str,
        allocations: Allocations,
        *,
        project_id: str,
        user_id: str,
        operation: Operation | None = None,
    ) -> None:
        """Make the consumer hold exactly `allocations`. Raises NoCapacity when they no longer fit.

        A consumer generation conflict may be the echo of our own earlier success, so what the
        consumer holds is read back before anything is believed.
        """
        wanted = {uuid: dict(resources) for uuid, resources in allocations.items()}
        path = f"/allocations/{_part(consumer_id)}"
        held: Claim = NOTHING

        async def attempt() -> None:
            nonlocal held
            body = _claim_body(Claim(wanted, project_id, user_id, held.generation))
            try:
                await self._send("PUT", path, body, operation)
            except Conflict as error:
                if not _may_pass(error):
                    raise
                held = await self.allocations(consumer_id)
                if held.allocations != wanted:
                    raise

        await _insist(attempt, what=f"claim resources for {consumer_id}")

    async def release(self, consumer_id: str, *, operation: Operation | None = None) -> None:
        """Make the consumer hold nothing; one that holds nothing already is fine."""
        try:
            await self._send("DELETE", f"/allocations/{_part(consumer_id)}", None, operation)
        except NotFound:
            return

    async def move(
        self, consumer_id: str, to_consumer_id: str, *, operation: Operation | None = None
    ) -> None:
        """Give all that one consumer holds to another, at once; done already is fine.

        Raises Conflict when the other one holds something else, NotFound when neither holds
        anything.
        """

        async def attempt() -> None:
            source = await self.allocations(consumer_id)
            target = await self.allocations(to_consumer_id)
            if not source.allocations:
                if target.allocations:
                    return
                raise NotFound(f"Consumer {consumer_id} holds no resources that could be moved.")
            if target.allocations:
                raise _Refused(
                    f"Consumer {to_consumer_id} holds resources already; release them first."
                )
            emptied = Claim({}, source.project_id, source.user_id, source.generation)
            given = Claim(source.allocations, source.project_id, source.user_id)
            body = {consumer_id: _claim_body(emptied), to_consumer_id: _claim_body(given)}
            await self._send("POST", "/allocations", body, operation)

        await _insist(attempt, what=f"move the resources of {consumer_id}")

    async def renew(self, consumer_id: str, *, operation: Operation | None = None) -> bool:
        """Have the consumer hold what it holds, so that a move which still comes is refused.

        A move names the generation that it saw, and this raises it. Returns whether the consumer
        holds anything.
        """

        async def attempt() -> bool:
            held = await self.allocations(consumer_id)
            if held.allocations:
                path = f"/allocations/{_part(consumer_id)}"
                await self._send("PUT", path, _claim_body(held), operation)
            return bool(held.allocations)

        return await _insist(attempt, what=f"renew the claim of {consumer_id}")

    async def provider(self, uuid: str) -> Provider:
        """Return one resource provider. Raises NotFound."""
        return typed.convert(await self._get(f"/resource_providers/{_part(uuid)}"), Provider)

    async def providers(self, *, name: str = "") -> list[Provider]:
        """Return all resource providers, or the one of that name."""
        query = "?" + urlencode({"name": name}) if name else ""
        body = await self._get(f"/resource_providers{query}")
        return typed.convert(body["resource_providers"], list[Provider])

    async def provider_allocations(self, uuid: str) -> dict[str, dict[str, int]]:
        """Return who holds what of a provider: resources by consumer. Raises NotFound."""
        body = await self._get(f"/resource_providers/{_part(uuid)}/allocations")
        return {consumer: dict(it["resources"]) for consumer, it in body["allocations"].items()}

    async def put_provider(self, name: str, uuid: str) -> Provider:
        """Make a provider, or find it, with this name. Raises Conflict: another has the name."""
        try:
            body = {"name": name, "uuid": uuid}
            answer = await self._send("POST", "/resource_providers", body)
            return typed.convert(answer, Provider)
        except Conflict as error:
            try:
                there = await self.provider(uuid)
            except NotFound:
                raise error from None
        if there.name == name:
            return there
        renamed = await self._send("PUT", f"/resource_providers/{_part(uuid)}", {"name": name})
        return typed.convert(renamed, Provider)

    async def delete_provider(self, uuid: str) -> None:
        """Delete a provider; one that is gone is fine. Raises Conflict: something is allocated."""
        try:
            await self._send("DELETE", f"/resource_providers/{_part(uuid)}")
        except NotFound:
            return

    async def inventory(self, uuid: str) -> dict[str, Inventory]:
        """Return what a provider has, by resource class. Raises NotFound."""
        body = await self._get(f"/resource_providers/{_part(uuid)}/inventories")
        return typed.convert(body["inventories"], dict[str, Inventory])

    async def put_inventory(
        self, uuid: str, inventories: Mapping[str, Inventory], *, seen: int | None = None
    ) -> None:
        """Make a provider have exactly this. Raises Conflict: a class left out is still in use.

        Of one `seen` at a generation it is put even if it stands, and Overtaken raised at another
        one: who saw it as it was before is refused from then on.
        """
        path = f"/resource_providers/{_part(uuid)}/inventories"

        async def attempt() -> None:
            there = await self._get(path)
            stands = typed.convert(there["inventories"], dict[str, Inventory]) == dict(inventories)
            if seen is None and stands:
                return
            generation = there["resource_provider_generation"] if seen is None else seen
            wanted = {name: to_builtins(inventory) for name, inventory in inventories.items()}
            body = {"resource_provider_generation": generation, "inventories": wanted}
            await self._send("PUT", path, body)

        await _insist(attempt, what=f"set the inventory of provider {uuid}", seen=seen)

    async def traits(self, uuid: str) -> frozenset[str]:
        """Return what a provider can do. Raises NotFound. Ask with `has_trait`."""
        body = await self._get(f"/resource_providers/{_part(uuid)}/traits")
        return frozenset(body["traits"])

    async def put_traits(
        self, uuid: str, traits: Collection[str], *, seen: int | None = None
    ) -> int:
        """Make a provider have these traits, beside the CUSTOM_ ones that operators gave it.

        A standard trait that placement is too old to know is set as CUSTOM_<name>; CUSTOM_COMPUTE_
        ones are ours and go when they are not asked for. Returns the generation that it has then;
        what changes one `seen` at another raises Overtaken.
        """
        path = f"/resource_providers/{_part(uuid)}/traits"

        async def attempt() -> int:
            there = await self._get(path)
            generation: int = there["resource_provider_generation"] if seen is None else seen
            old = frozenset[str](there["traits"])
            operators = {name for name in old if _is_operators(name)}
            wanted = frozenset(await self._spell(traits, known=old) | operators)
            if wanted == old:
                return generation
            body = {"resource_provider_generation": generation, "traits": sorted(wanted)}
            return (await self._send("PUT", path, body))["resource_provider_generation"]

        return await _insist(attempt, what=f"set the traits of provider {uuid}", seen=seen)

    async def _spell(self, traits: Collection[str], *, known: Collection[str]) -> set[str]:
        """Return the traits under names that the service knows, after making those it lacks."""
        unsure = sorted(name for name in traits if name not in known)
        if not unsure:
            return set(traits)
        body = await self._get("/traits?" + urlencode({"name": "in:" + ",".join(unsure)}))
        missing = set(unsure) - set(body["traits"])
        custom = {name if name.startswith("CUSTOM_") else f"CUSTOM_{name}" for name in missing}
        for name in sorted(custom - set(known)):
            await self._send("PUT", f"/traits/{_part(name)}")
        return (set(traits) - missing) | custom

    async def _get(self, path: str) -> Any:
        answer = await self.session.request("GET", path, caller=None, version=VERSION)
        return answer.json()

    async def _send(
        self, method: str, path: str, body: Any = None, operation: Operation | None = None
    ) -> Any:
        answer = await self.session.request(
            method, path, caller=None, json=body, version=VERSION, operation=operation
        )
        return answer.json() if answer.content else None


def has_trait(traits: Collection[str], name: str) -> bool:
    """Tell whether a provider has a trait, under its standard name or as a custom one."""
    return name in traits or f"CUSTOM_{name}" in traits


class Overtaken(Unavailable):
    """Others have changed it, each time or since it was seen: to be seen anew, and tried again."""


class _Refused(Conflict):
    """A conflict that trying again does not change."""


async def _insist(attempt: Callable[[], Awaitable[T]], *, what: str, seen: int | None = None) -> T:
    """Try until nobody was faster, what was `seen` once. Raises NoCapacity, Conflict, Overtaken."""
    last: Conflict | None = None
    for _ in range(PLACEMENT_ATTEMPTS if seen is None else 1):
        try:
            return await attempt()
        except Conflict as error:
            if not _may_pass(error):
                raise _told(error) from error
            last = error
    raise Overtaken(
        f"Could not {what}: others changed the same provider. Try again.", private=str(last)
    ) from last


def _may_pass(error: Conflict) -> bool:
    """Tell whether a conflict says only that somebody else was faster."""
    return error.detail.get("code") == "placement.concurrent_update"


def _told(error: Conflict) -> Conflict | NoCapacity:
    """Return a conflict as what it means: without a code of its own it is a lack of room."""
    told = (error.detail.get("http_status"), error.detail.get("code"))
    if told == (409, "placement.undefined_code"):
        return NoCapacity(error.public, private=error.private)
    return error


def _candidate(request: Mapping[str, Any], summaries: Mapping[str, Summary]) -> Candidate:
    """Read one allocation request, with the summaries of its own providers."""
    given = {uuid: dict(it["resources"]) for uuid, it in request["allocations"].items()}
    return Candidate(given, {uuid: summaries[uuid] for uuid in given if uuid in summaries})


def _claim_body(claim: Claim) -> dict[str, Any]:
    """Write what a consumer is to hold, as PUT and POST want it."""
    given = {uuid: {"resources": resources} for uuid, resources in claim.allocations.items()}
    return {
        "allocations": given,
        "project_id": claim.project_id,
        "user_id": claim.user_id,
        "consumer_generation": claim.generation,
    }


def _is_operators(trait: str) -> bool:
    """Tell whether a trait was given by an operator, not by us."""
    return trait.startswith("CUSTOM_") and not trait.startswith("CUSTOM_COMPUTE_")


def _part(text: str) -> str:
    """Write an id or name as one part of a path, whatever it holds."""
    return quote(text, safe="")
