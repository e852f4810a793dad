"""/reshaper: move inventories and allocations between providers in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.placement import allocations, inventories
from mooring.placement.api.allocations import Body28, Body34, Body38, read_wish
from mooring.placement.api.inventories import Inventories
from mooring.placement.api.views import Uuid
from mooring.placement.service import Placement
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.orm import Session

api = Api[Placement]()

_RULE = "placement:reshaper:reshape"


class Reshape30(Struct, frozen=True, forbid_unknown_fields=True):
    """What providers are to have and consumers to hold, 1.30 to 1.33."""

    inventories: dict[Uuid, Inventories]
    allocations: dict[Uuid, Body28]


class Reshape34(Struct, frozen=True, forbid_unknown_fields=True):
    """What providers are to have and consumers to hold, 1.34 to 1.37."""

    inventories: dict[Uuid, Inventories]
    allocations: dict[Uuid, Body34]


class Reshape38(Struct, frozen=True, forbid_unknown_fields=True):
    """What providers are to have and consumers to hold, from 1.38 on."""

    inventories: dict[Uuid, Inventories]
    allocations: dict[Uuid, Body38]


@api.post("/reshaper", Reshape30, policy=_RULE, since=(1, 30), until=(1, 33))
async def reshape_30(call: Call[Placement], body: Reshape30) -> Reply:
    """Change inventories and allocations together, all or none."""
    return await _reshape(call, body.inventories, body.allocations)


@api.post("/reshaper", Reshape34, policy=_RULE, since=(1, 34), until=(1, 37))
async def reshape_34(call: Call[Placement], body: Reshape34) -> Reply:
    """Change inventories and allocations together, all or none."""
    return await _reshape(call, body.inventories, body.allocations)


@api.post("/reshaper", Reshape38, policy=_RULE, since=(1, 38))
async def reshape_38(call: Call[Placement], body: Reshape38) -> Reply:
    """Change inventories and allocations together, all or none."""
    return await _reshape(call, body.inventories, body.allocations)


async def _reshape(
    call: Call[Placement],
    stocks: Mapping[str, Inventories],
    held: Mapping[str, Body28 | Body34 | Body38],
) -> Reply:
    wanted = {provider_id: each.inventories for provider_id, each in stocks.items()}
    seen = {each: stock.resource_provider_generation for each, stock in stocks.items()}
    for each in wanted.values():
        inventories.check(each, all_reserved=True)
    wishes = {consumer_id: read_wish(each) for consumer_id, each in held.items()}
    now = call.service.clock.now()

    def write(tx: Session) -> None:
        def move() -> None:
            allocations.replace(tx, wishes, now)

        inventories.reshape(tx, wanted, seen=seen, now=now, move=move)

    await call.service.store.write(write)
    return Reply(204)
