"""/reshaper: move inventories and allocations between providers in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.placement import allocations, inventories
from mooring.placement.api.allocations import WantedOfMany, read_wish
from mooring.placement.api.inventories import Inventories
from mooring.placement.api.views import Uuid
from mooring.placement.service import Placement
from mooring.web.api import Api, Call, Reply

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

api = Api[Placement]()


class Reshape(Struct, frozen=True, forbid_unknown_fields=True):
    """What providers are to have and consumers to hold."""

    inventories: dict[Uuid, Inventories]
    allocations: dict[Uuid, WantedOfMany]


@api.post("/reshaper", Reshape, policy="placement:reshaper:reshape", since=(1, 30))
async def reshape(call: Call[Placement], body: Reshape) -> Reply:
    """Change inventories and allocations together, all or none."""
    stocks, held = body.inventories, body.allocations
    wanted = {provider_id: stock.inventories for provider_id, stock in stocks.items()}
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
