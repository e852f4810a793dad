"""What a service hears of a host first, and makes rows of: not once that was taken out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from sqlalchemy.orm import Session

from mooring.agent_api.client import Agents
from mooring.agent_api.hosts import Host
from mooring.fence import forgotten
from mooring.store.base import Store

T = TypeVar("T")


class Hearer(Protocol):
    """A service that hears of hosts."""

    store: Store
    agents: Agents


async def make(
    service: Hearer, reports: Sequence[Host], write: Callable[[Session, Sequence[Host]], T]
) -> T | None:
    """Run `write` with what hosts say that there still are; None when one was forgotten meanwhile.

    How often that was is read before it is seen which hosts there are: a host that leaves after
    that is forgotten after this.
    """
    seen = await service.store.read(forgotten.count)
    await service.agents.look()
    present = [said for said in reports if said.name in service.agents]

    def write_down(tx: Session) -> T | None:
        return write(tx, present) if forgotten.may_make(tx, seen) else None

    return await service.store.write(write_down)
