"""The placement service, declared."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from mooring.placement.api import (
    allocations,
    candidates,
    inventories,
    providers,
    reshaper,
    resource_classes,
    traits,
    usages,
)
from mooring.placement.growth import BOUNDS
from mooring.placement.policy import RULES
from mooring.placement.service import Placement
from mooring.placement.tables import AllocationRow
from mooring.service import Service, Surroundings
from mooring.web import faces


def _open(near: Surroundings) -> Placement:
    return Placement(store=near.store, clock=near.clock)


def _allocations(tx: Session) -> dict[str, dict[str, Any]]:
    """Read the amounts that each consumer holds, by resource class."""
    found: dict[str, dict[str, Any]] = {}
    columns = (AllocationRow.consumer_id, AllocationRow.resource_class, AllocationRow.amount)
    for consumer_id, resource_class, amount in tx.execute(select(*columns)):
        amounts = found.setdefault(consumer_id, {})
        amounts[resource_class] = amounts.get(resource_class, 0) + amount
    return found


SERVICE = Service(
    name="placement",
    kind="placement",
    entry="placement",
    face=faces.PLACEMENT,
    apis=(
        providers.api,
        inventories.api,
        traits.api,
        resource_classes.api,
        allocations.api,
        candidates.api,
        usages.api,
        reshaper.api,
    ),
    rules=RULES,
    open=_open,
    bounds=BOUNDS,
    pages={"allocations": _allocations},
)
