"""/allocations: what consumers hold.

The body of a PUT has grown much: a list below 1.12, an object from there on, then with the
consumer's generation (1.28), the mappings of a candidate (1.34) and the consumer's type (1.38).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from mooring.errors import Invalid, NotFound
from mooring.fence import table as fence
from mooring.fence.rules import Answer, Verb
from mooring.placement import allocations
from mooring.placement.allocations import Wish
from mooring.placement.api import views
from mooring.placement.api.views import NOBODY_ID, Uuid
from mooring.placement.inventories import Count
from mooring.placement.service import Placement
from mooring.web.api import Api, Call, Reply

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
ConsumerGeneration = Annotated[int, Meta(ge=0)] | None
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
Some = Annotated[dict[Uuid, Given], Meta(min_length=1)]
AnyNumber = dict[Uuid, Given]


class Body1(Struct, frozen=True, forbid_unknown_fields=True):
    """1.0 to 1.7: nobody says who the consumer belongs to."""

    allocations: Listed


class Body8(Struct, frozen=True, forbid_unknown_fields=True):
    """1.8 to 1.11: with project and user."""

    allocations: Listed
    project_id: OwnerId
    user_id: OwnerId


class Body12(Struct, frozen=True, forbid_unknown_fields=True):
    """1.12 to 1.27: an object instead of a list."""

    allocations: Some
    project_id: OwnerId
    user_id: OwnerId


class Body13(Struct, frozen=True, forbid_unknown_fields=True):
    """1.13 to 1.27, one of several consumers: may be emptied."""

    allocations: AnyNumber
    project_id: OwnerId
    user_id: OwnerId


class Body28(Struct, frozen=True, forbid_unknown_fields=True):
    """1.28 to 1.33: with the consumer's generation, null for a new one; may be emptied."""

    allocations: AnyNumber
    project_id: OwnerId
    user_id: OwnerId
    consumer_generation: ConsumerGeneration


class Body34(Struct, frozen=True, forbid_unknown_fields=True):
    """1.34 to 1.37: the mappings of a candidate are taken, and not looked at."""

    allocations: AnyNumber
    project_id: OwnerId
    user_id: OwnerId
    consumer_generation: ConsumerGeneration
    mappings: Mappings = {}


class Body38(Struct, frozen=True, forbid_unknown_fields=True):
    """1.38 and newer: with the consumer's type."""

    allocations: AnyNumber
    project_id: OwnerId
    user_id: OwnerId
    consumer_generation: ConsumerGeneration
    consumer_type: ConsumerType
    mappings: Mappings = {}


Body = Body1 | Body8 | Body12 | Body13 | Body28 | Body34 | Body38


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
    return views.answer(call, body, modified=there.updated_at)


@api.put(_ONE, Body1, policy=_UPDATE, until=(1, 7))
async def put_1(call: Call[Placement], body: Body1) -> Reply:
    """Make a consumer hold this."""
    return await _put(call, body)


@api.put(_ONE, Body8, policy=_UPDATE, since=(1, 8), until=(1, 11))
async def put_8(call: Call[Placement], body: Body8) -> Reply:
    """Make a consumer hold this."""
    return await _put(call, body)


@api.put(_ONE, Body12, policy=_UPDATE, since=(1, 12), until=(1, 27))
async def put_12(call: Call[Placement], body: Body12) -> Reply:
    """Make a consumer hold this."""
    return await _put(call, body)


@api.put(_ONE, Body28, policy=_UPDATE, since=(1, 28), until=(1, 33))
async def put_28(call: Call[Placement], body: Body28) -> Reply:
    """Make a consumer hold this, or nothing."""
    return await _put(call, body)


@api.put(_ONE, Body34, policy=_UPDATE, since=(1, 34), until=(1, 37))
async def put_34(call: Call[Placement], body: Body34) -> Reply:
    """Make a consumer hold this, or nothing."""
    return await _put(call, body)


@api.put(_ONE, Body38, policy=_UPDATE, since=(1, 38))
async def put_38(call: Call[Placement], body: Body38) -> Reply:
    """Make a consumer hold this, or nothing."""
    return await _put(call, body)


@api.delete(_ONE, policy="placement:allocations:delete")
async def delete_allocations(call: Call[Placement]) -> Reply:
    """Make a consumer hold nothing."""
    consumer_id, now = call.path["consumer_id"], call.service.clock.now()

    def change(tx: Session) -> None:
        allocations.remove(tx, consumer_id, now)

    return await _write(call, change, resource=f"allocations:{consumer_id}", verb="DELETE")


@api.post("/allocations", dict[Uuid, Body13], policy=_MANAGE, since=(1, 13), until=(1, 27))
async def post_13(call: Call[Placement], body: dict[str, Body13]) -> Reply:
    """Make several consumers hold what is said, all or none."""
    return await _post(call, body)


@api.post("/allocations", dict[Uuid, Body28], policy=_MANAGE, since=(1, 28), until=(1, 33))
async def post_28(call: Call[Placement], body: dict[str, Body28]) -> Reply:
    """Make several consumers hold what is said, all or none."""
    return await _post(call, body)


@api.post("/allocations", dict[Uuid, Body34], policy=_MANAGE, since=(1, 34), until=(1, 37))
async def post_34(call: Call[Placement], body: dict[str, Body34]) -> Reply:
    """Make several consumers hold what is said, all or none."""
    return await _post(call, body)


@api.post("/allocations", dict[Uuid, Body38], policy=_MANAGE, since=(1, 38))
async def post_38(call: Call[Placement], body: dict[str, Body38]) -> Reply:
    """Make several consumers hold what is said, all or none."""
    return await _post(call, body)


def read_wish(body: Body) -> Wish:
    """Return what one body wishes for. Raises Invalid when a list names a provider twice."""
    given: dict[str, dict[str, int]]
    if isinstance(body, (Body1, Body8)):
        given = {each.resource_provider.uuid: each.resources for each in body.allocations}
        if len(given) != len(body.allocations):
            raise Invalid("A resource provider is named twice. Name each provider once.")
    else:
        given = {provider_id: each.resources for provider_id, each in body.allocations.items()}
    guarded = isinstance(body, (Body28, Body34, Body38))
    return Wish(
        allocations=given,
        project_id=NOBODY_ID if isinstance(body, Body1) else body.project_id,
        user_id=NOBODY_ID if isinstance(body, Body1) else body.user_id,
        consumer_type=body.consumer_type if isinstance(body, Body38) else None,
        generation=body.consumer_generation if guarded else None,
        guarded=guarded,
    )


async def _put(call: Call[Placement], body: Body) -> Reply:
    consumer_id = views.check_uuid(call.path["consumer_id"], "consumer_uuid")
    wishes, now = {consumer_id: read_wish(body)}, call.service.clock.now()

    def change(tx: Session) -> None:
        allocations.replace(tx, wishes, now)

    return await _write(call, change, resource=f"allocations:{consumer_id}", verb="PUT")


async def _post(call: Call[Placement], body: Mapping[str, Body]) -> Reply:
    if not body:
        raise Invalid("The request names no consumer. Name at least one.")
    wishes = {consumer_id: read_wish(each) for consumer_id, each in body.items()}
    now = call.service.clock.now()

    def change(tx: Session) -> None:
        allocations.replace(tx, wishes, now)

    return await _write(call, change, resource=_name(wishes), verb="POST")


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
