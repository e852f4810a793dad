"""The share service: what it owns and whom it may call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring.notify.outbox import Outbox

if TYPE_CHECKING:
    from mooring.agent_api.client import Agents
    from mooring.clock import Clock
    from mooring.fence.operation import Operation
    from mooring.saga.engine import Engine
    from mooring.saga.seal import Sealer
    from mooring.store.base import Store
    from mooring.who import Who


class ShareSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator may choose. Times carry their unit in the name."""

    default_zone: str = "nova"
    default_type: str = "__DEFAULT__"
    """The share type of shares for which no other is asked; made at the first start."""
    pool_poll_s: float = 10.0
    pool_down_s: float = 60.0
    """A pool whose host did not answer for so long gets no new shares."""


class Share:
    """Everything that rules, sagas and loops of the share service work with.

    `sagas` is set by whoever builds the process, right after this object: the engine needs it too.
    """

    sagas: Engine[Share]

    def __init__(
        self,
        *,
        store: Store,
        agents: Agents,
        sealer: Sealer,
        clock: Clock,
        settings: ShareSettings | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        self.store, self.clock, self.sealer, self.agents = store, clock, sealer, agents
        self.settings = settings or ShareSettings()
        self.outbox = outbox or Outbox(clock)


class Asked(Struct, frozen=True):
    """On whose behalf something is done: the service, who asked, the operation that came along."""

    share: Share
    who: Who
    operation: Operation | None = None
