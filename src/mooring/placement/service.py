"""The placement service: what it owns. It calls nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mooring.clock import Clock
    from mooring.store.base import Store


class Placement:
    """Everything that the rules of the placement service work with."""

    def __init__(self, *, store: Store, clock: Clock) -> None:
        self.store, self.clock = store, clock
