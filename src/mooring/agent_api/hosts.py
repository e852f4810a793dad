"""A host as its agent reports it: what it is, what it has, what it holds, what happened on it."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from msgspec import Meta, Struct

from mooring.agent_api.disks import Connected, SeenDisk, UnreadConnection, UnreadDisk
from mooring.agent_api.guest_shares import MountedShare, ShareClient, UnreadMount
from mooring.agent_api.images import CachedImage
from mooring.agent_api.servers import Guest
from mooring.agent_api.shares import HostedShare, SharePool
from mooring.agent_api.volumes import VolumeFile

AGENT_VERSION = 75
"""What this agent reports: 73 is everything up to compute 2.104, 74 spec 000, 75 spec 003."""


Amount: TypeAlias = Annotated[int, Meta(ge=0, le=2**31 - 1)]
"""What placement can count, and every database keep."""


class Pool(Struct, frozen=True, kw_only=True):
    """One place for volumes on a host. Sizes in GiB; `free_gib` already leaves out the reserve."""

    name: str
    driver: str
    total_gib: float
    free_gib: float
    provisioned_gib: Amount = 0
    volumes: Amount = 0
    reserved_percent: int = 0
    thin: bool = True
    multiattach: bool = True
    online_extend: bool = False
    storage_protocol: str = "local"
    hosts: list[str] | None = None
    """Names of the hosts that may have its volumes; None is every host."""
    problem: str = ""
    """Why the pool cannot be used now; empty when it can."""
    identity: str = ""
    """What the storage calls itself, to every host that sees it; empty when that is not known."""


class Host(Struct, frozen=True, kw_only=True):
    """The answer of `GET /host`. vCPUs, MiB and GiB are totals, not what is free."""

    name: str
    incarnation: str
    """Made with the agent's journal: another one means that the agent forgot what it was told."""
    version: Amount = AGENT_VERSION
    roles: list[str] = []
    """Any of compute, volume, share."""
    hypervisor: str = ""
    """What runs guests here: libvirt or simulated; empty without the role compute."""
    hypervisor_version: Amount = 0
    """As QEMU counts: 7002000 is 7.2.0."""
    accelerator: str = ""
    """kvm, tcg or simulated."""
    architecture: str = "x86_64"
    vcpus: Amount = 0
    memory_mib: Amount = 0
    disk_gib: Amount = 0
    traits: list[str] = []
    pools: list[Pool] = []
    share_pools: list[SharePool] = []
    shares: ShareClient = ShareClient()
    """Where and as whom this host mounts shares for its guests."""
    ip: str = "127.0.0.1"
    uptime: str = ""
    """How long the machine runs, and its load, as `uptime` prints them; "" where nobody tells."""
    problem: str = ""
    """Why no guest can be started here now, and what to do; empty when one can."""


class Inventory(Struct, frozen=True, kw_only=True):
    """Everything on one host, for `mooring doctor` to compare with the databases."""

    name: str
    incarnation: str
    guests: list[Guest] = []
    volumes: list[VolumeFile] = []
    shares: list[HostedShare] = []
    images: list[CachedImage] = []
    brought: dict[str, str] = {}
    """Images that operations brought for themselves, or bring: the operation's key, by id."""
    connections: list[Connected] = []
    """Those whose records could be read."""
    unread_connections: list[UnreadConnection] = []
    """Those whose records could not be read. An agent of before names none."""
    disks: list[SeenDisk] = []
    """The guests' volumes whose sizes could be read."""
    unread_disks: list[UnreadDisk] = []
    """The guests' volumes whose sizes could not be read. An agent of before names none."""
    share_mounts: list[MountedShare] = []
    """Which servers this host has shares mounted for, or had until its machine started anew."""
    unread_share_mounts: list[UnreadMount] = []
    """Those of them whose records could not be read. An agent of before names none."""
    leftovers: list[str] = []
    """Paths that belong to no guest, volume, share or image, and to no running operation."""
    unread_pools: list[str] = []
    """Pools of volumes that do not answer: what is in them stands in no list."""
    unread_share_pools: list[str] = []
    """Pools of shares that do not answer: what is in them stands in no list."""


class Event(Struct, frozen=True, kw_only=True):
    """One piece of news.

    Kinds: agent_started, guest_started, guest_stopped, guest_crashed, disk_removed.
    """

    number: int
    kind: str
    time: str
    """UTC, ISO 8601."""
    server_id: str = ""
    volume_id: str = ""
    reason: str = ""


class Events(Struct, frozen=True, kw_only=True):
    """News after the number that was asked for; `last` is the number to ask from next.

    Events are a hint. After `agent_started` some may have been missed: read the guests.
    """

    incarnation: str
    events: list[Event]
    last: int
