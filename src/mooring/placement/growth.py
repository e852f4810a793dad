"""What keeps the tables of the placement service from growing without end."""

from __future__ import annotations

from mooring.placement.service import Placement
from mooring.placement.tables import (
    AllocationRow,
    ConsumerRow,
    InventoryRow,
    ProviderAggregateRow,
    ProviderRow,
    ProviderTraitRow,
    ResourceClassRow,
    TraitRow,
)
from mooring.store.growth import Bound

BOUNDS: tuple[Bound[Placement], ...] = (
    Bound(ProviderRow, "one for each host, and what administrators make"),
    *(
        Bound[Placement](row, "gone with their provider; set by administrators and services alone")
        for row in (InventoryRow, ProviderTraitRow, ProviderAggregateRow)
    ),
    Bound(TraitRow, "the standard ones, and what administrators make"),
    Bound(ResourceClassRow, "the standard ones, and what administrators make"),
    Bound(ConsumerRow, "gone with their last allocation"),
    Bound(AllocationRow, "gone with the server or the move that they are for"),
)
