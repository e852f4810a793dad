"""The compute service: what it owns and whom it may call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from mooring.notify.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mooring.agent_api.client import Agents
    from mooring.clients.image import ImageClient
    from mooring.clients.placement import PlacementClient
    from mooring.clients.projects import Projects
    from mooring.clients.share import ShareClient
    from mooring.clients.volume import VolumeClient
    from mooring.clock import Clock
    from mooring.host_fence import HostFence
    from mooring.saga.engine import Engine
    from mooring.store.base import Store


class ComputeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an operator may choose. Sizes and times carry their unit in the name."""

    default_zone: str = "nova"
    cross_zone_attach: bool = True
    """Whether a server may use a volume of another availability zone."""
    max_disks: int = -1
    """Disks that one server may have; -1 is no limit beside what a guest can have."""
    host_down_s: float = 60.0
    """A host that did not answer for so long is down (facts/compute.md 12.2)."""
    host_shown_down_s: float = 15.0
    """One that did not for so long is shown as down; until the above, what comes waits for it."""
    host_poll_s: float = 5.0
    heal_interval_s: float = 60.0
    drain_poll_s: float = 2.0
    """How often a host that is being emptied is looked at."""
    volume_ready_s: float = 180.0
    """How long a server waits for a volume that is being made."""
    share_rule_s: float = 300.0
    """How long the share service may take to let a host in, what it is silent counted too."""
    shutdown_timeout_s: float = 60.0
    """How long a guest may take to shut down before it is switched off."""
    reimage_timeout_per_gb: float = 20.0
    """Seconds for each GiB of an image, after which a rebuild that was told nothing looks by itself
    what became of its volume."""
    move_timeout_s: float = 3600.0
    """How long a guest may be on its way to another host; then `move_timeout_action` is done."""
    move_timeout_action: Literal["abort", "force_complete"] = "abort"
    """Have it stay where it is, or stand still until it is there, if not for too long."""
    moves_at_once: int = 1
    """How many running guests may leave one host at a time; 0 is no limit."""
    resize_confirm_window: float = 0.0
    """Seconds after which a resize or a cold migration is confirmed by itself; 0 is never."""
    shelved_offload_time: float = 0.0
    """For how many seconds a shelved server whose disk became an image waits at its host; below 0
    for ever."""
    deleted_servers_s: float = 90 * 86400.0
    """For how long a deleted server is remembered."""
    evacuate_after_s: float = 0.0
    """After how many seconds of silence a host is fenced by itself; 0 is never."""
    force_config_drive: bool = False
    """Whether every new server has a config drive, asked for or not."""
    console_token_s: float = 600.0
    """For how long a console's URL is good."""
    cpu_allocation_ratio: float = 4.0
    memory_allocation_ratio: float = 1.0
    disk_allocation_ratio: float = 1.0


class Compute:
    """Everything that rules, sagas and loops of the compute service work with.

    `own_user_id` returns the id of the service's own user.
    `sagas` is set by whoever builds the process, right after this object: the engine needs it too.
    """

    sagas: Engine[Compute]

    def __init__(
        self,
        *,
        store: Store,
        images: ImageClient,
        placement: PlacementClient,
        volumes: VolumeClient,
        shares: ShareClient,
        projects: Projects,
        agents: Agents,
        clock: Clock,
        fence: HostFence,
        own_user_id: Callable[[], Awaitable[str]],
        settings: ComputeSettings | None = None,
        outbox: Outbox | None = None,
    ) -> None:
        self.store, self.clock = store, clock
        self.images, self.placement, self.volumes = images, placement, volumes
        self.shares, self.projects, self.agents = shares, projects, agents
        self.fence, self.own_user_id = fence, own_user_id
        self.settings = settings or ComputeSettings()
        self.outbox = outbox or Outbox(clock)
