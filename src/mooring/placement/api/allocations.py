"""/allocations: what consumers hold.

The body of a PUT has grown much: a list below 1.12, an object from there on, then with the
consumer's generation (1.28), the mappings of a candidate (1.34) and the consumer's type (1.38).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from mooring.errors import Invalid, NotFound
from mooring.fence import table as fence
from mooring.fence.rules import Answer, Verb
from mooring.placement import allocations
from mooring.placement.allocations import Wish
from mooring.placement.api import views
from mooring.placement.api.views import NOBODY_ID, Generation, Uuid
from mooring.placement.inventories import Count
from mooring.placement.service import Placement
from mooring.web.api import Api, Call, Reply
from mooring.web.bodies import Required, Since, Was

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy.orm import Session

api = Api[Placement]()

_ONE = "/allocations/{consumer_id}"
_UPDATE = "placement:allocations:update"
_MANAGE = "placement:allocations:manage"

Amounts = Annotated[dict[str, Count], Meta(min_length=1)]
OwnerId = Annotated[str, Meta(min_length=1, max_length=255)]
ConsumerType = Annotated[str, Meta(min_length=1, max_length=255, pattern="^[A-Z0-9_]+$")]
ConsumerGeneration = Generation | None
Mappings = dict[Annotated[str, Meta(pattern="^([A-Za-z0-9_-]{1,64})?$")], list[Uuid]]


class ProviderReference(Struct, frozen=True, forbid_unknown_fields=True):
    """Which provider an entry of the list form is about."""

    uuid: Uuid


class ListedAllocation(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of the list form."""

    resource_provider: ProviderReference
    resources: Amounts


class Given(Struct, frozen=True, forbid_unknown_fields=True):
    """What one provider gives. A generation, as GET shows it, is taken and not looked at."""

    resources: Amounts
    generation: int | None = None


Listed = Annotated[list[ListedAllocation], Meta(min_length=1)]
AnyNumber = dict[Uuid, Given]
Some = Annotated[AnyNumber, Meta(min_length=1)]


class Wanted(Struct, frozen=True, forbid_unknown_fields=True):
    """What one consumer is to hold; from 1.28 on that may be nothing.

    Below 1.8 nobody says whose it is. The consumer's generation is null for a new one. The mappings
    of a candidate are taken, and not looked at.
    """

    allocations: Annotated[Listed | AnyNumber, Was(Listed, (1, 11)), Was(Some, (1, 27))]
    project_id: Annotated[OwnerId, Since(1, 8), Required(1, 8)] = NOBODY_ID
    user_id: Annotated[OwnerId, Since(1, 8), Required(1, 8)] = NOBODY_ID
    consumer_generation: Annotated[
        ConsumerGeneration | UnsetType, Since(1, 28), Required(1, 28)
    ] = UNSET
    consumer_type: Annotated[ConsumerType, Since(1, 38), Required(1, 38)] = ""
    mappings: Annotated[Mappings, Since(1, 34)] = {}


class WantedOfMany(Wanted, frozen=True, forbid_unknown_fields=True):
    """What one of several consumers is to hold, which may be nothing."""

    allocations: AnyNumber


@api.get(_ONE, policy="placement:allocations:list")
async def show_allocations(call: Call[Placement]) -> Reply:
    """Return what a consumer holds."""
    consumer_id = call.path["consumer_id"]

    def read(tx: Session) -> tuple[allocations.Consumer | None, dict[str, int]]:
        there = allocations.find(tx, consumer_id)
        return there, allocations.generations(tx, there.allocations) if there else {}

    there, generations = await call.service.store.read(read)
    if there is None:
        return views.answer(call, {"allocations": {}})
    return views.answer(call, _show(call, there, generations), modified=there.updated_at)


def _show(
    call: Call[Placement], there: allocations.Consumer, generations: dict[str, int]
) -> dict[str, Any]:
    """Show what a consumer holds, and of later versions whose it is."""
    body: dict[str, Any] = {
        "allocations": {
            provider_id: {"resources": resources, "generation": generations[provider_id]}
            for provider_id, resources in there.allocations.items()
        }
    }
    if call.version >= (1, 12):
        body |= {"project_id": there.project_id, "user_id": there.user_id}
    if call.version >= (1, 28):
        body["consumer_generation"] = there.generation
    if call.version >= (1, 38):
        body["consumer_type"] = there.consumer_type or "unknown"
    return body


@api.put(_ONE, Wanted, policy=_UPDATE)
async def put_allocations(call: Call[Placement], body: Wanted) -> Reply:
    """Make a consumer hold this."""
    consumer_id = views.check_uuid(call.path["consumer_id"], "consumer_uuid")
    wishes, now = {consumer_id: read_wish(body)}, call.service.clock.now()

    def change(tx: Session) -> None:
        allocations.replace(tx, wishes, now)

    return await _write(call, change, resource=f"allocations:{consumer_id}", verb="PUT")


@api.delete(_ONE, policy="placement:allocations:delete")
async def delete_allocations(call: Call[Placement]) -> Reply:
    """Make a consumer hold nothing."""
    consumer_id, now = call.path["consumer_id"], call.service.clock.now()

    def change(tx: Session) -> None:
        allocations.remove(tx, consumer_id, now)

    return await _write(call, change, resource=f"allocations:{consumer_id}", verb="DELETE")


@api.post("/allocations", dict[Uuid, WantedOfMany], policy=_MANAGE, since=(1, 13))
async def post_allocations(call: Call[Placement], body: dict[str, WantedOfMany]) -> Reply:
    """Make several consumers hold what is said, all or none."""
    if not body:
        raise Invalid("The request names no consumer. Name at least one.")
    wishes = {consumer_id: read_wish(each) for consumer_id, each in body.items()}
    now = call.service.clock.now()

    def change(tx: Session) -> None:
        allocations.replace(tx, wishes, now)

    return await _write(call, change, resource=_name(wishes), verb="POST")


def read_wish(body: Wanted) -> Wish:
    """Return what one body wishes for. Raises Invalid when a list names a provider twice."""
    held = body.allocations
    given: dict[str, dict[str, int]]
    if isinstance(held, list):
        given = {each.resource_provider.uuid: each.resources for each in held}
        if len(given) != len(held):
            raise Invalid("A resource provider is named twice. Name each provider once.")
    else:
        given = {provider_id: each.resources for provider_id, each in held.items()}
    seen = body.consumer_generation
    return Wish(
        allocations=given,
        project_id=body.project_id,
        user_id=body.user_id,
        consumer_type=body.consumer_type or None,
        generation=None if seen is UNSET else seen,
        guarded=seen is not UNSET,
    )


async def _write(
    call: Call[Placement], change: Callable[[Session], None], *, resource: str, verb: Verb
) -> Reply:
    """Run a change once for each operation, in the transaction that remembers the operation."""

    def write(tx: Session) -> int:
        earlier = fence.admit(tx, call.operation, resource, verb=verb)
        if earlier is not None:
            return earlier.status
        try:
            change(tx)
        except NotFound:
            # The undo of a claim that never came: its tombstone must stay, so this is no failure.
            if call.operation is None:
                raise
        fence.record(tx, call.operation, resource, Answer(status=204), verb=verb)
        return 204

    return Reply(await call.service.store.write(write))


def _name(wishes: Mapping[str, Wish]) -> str:
    """Name a change of several consumers: a move back is another change than the move itself."""
    parts = [f"{each}{'+' if wishes[each].allocations else '-'}" for each in sorted(wishes)]
    return "allocations:" + hashlib.sha256(",".join(parts).encode()).hexdigest()
