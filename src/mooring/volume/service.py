"""The volume service: what it owns and whom it may call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from mooring import limits
from mooring.notify.outbox import Outbox

if TYPE_CHECKING:
    from mooring.agent_api.client import Agents
    from mooring.clients.compute import ComputeClient
    from mooring.clients.image import ImageClient
    from mooring.clock import Clock
    from mooring.saga.engine import Engine
    from mooring.saga.seal import Sealer
    from mooring.store.base import Store
    from mooring.volume.backups.stores.base import BackupStore


class VolumeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator may choose. Sizes and times carry their unit in the name."""

    default_zone: str = "nova"
    default_type: str = "__DEFAULT__"
    """The volume type of volumes for which no other is asked; made at the first start."""
    oversubscription_ratio: float = 20.0
    """How many GiB of thin volumes may be promised for each GiB that a pool has."""
    reserved_percentage: int = 0
    """How much of a pool is kept free, in percent of its size."""
    pool_poll_s: float = 10.0
    pool_down_s: float = 60.0
    """A pool whose host did not answer for so long gets no new volumes."""
    borrowed_for_s: float = 600.0
    """How long a client of the API may keep a volume in a transitional status unquestioned."""
    settle_interval_s: float = 60.0
    extend_completion_version: str = "2.105"
    """The compute microversion whose `volume-extended` is answered by the completion action; ""
    when compute has none: then a volume that only a guest's hypervisor can grow does not."""
    extend_deadline_s: float = 600.0
    """How long storage, and after it compute, may take to make a volume grow."""
    snapshot_deadline_s: float = limits.VOLUME_SNAPSHOT_S
    """How long compute may take to switch a guest over to a snapshot's overlay."""
    merge_deadline_s: float = limits.VOLUME_MERGE_S
    """How long compute may take to merge the files of a deleted snapshot under a guest."""


class Volume:
    """Everything that rules, sagas and loops of the volume service work with.

    `sagas` is set by whoever builds the process, right after this object: the engine needs it too.
    """

    sagas: Engine[Volume]

    def __init__(
        self,
        *,
        store: Store,
        images: ImageClient,
        compute: ComputeClient,
        backups: BackupStore,
        agents: Agents,
        sealer: Sealer,
        clock: Clock,
        settings: VolumeSettings | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        self.store, self.clock, self.sealer = store, clock, sealer
        self.images, self.compute, self.agents = images, compute, agents
        self.backups = backups
        self.settings = settings or VolumeSettings()
        self.outbox = outbox or Outbox(clock)
