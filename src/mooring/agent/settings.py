"""What makes one host differ from another, handed to `open_agent` by whoever starts it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from mooring.agent import limits
from mooring.agent.drivers.remote_options import (
    NetappNfsOptions,
    NfsOptions,
    PowerstoreNfsOptions,
    QuobyteOptions,
)
from mooring.agent.seclusion import EMULATOR
from mooring.agent.share_drivers.options import CephfsShareOptions, NfsShareOptions
from mooring.agent_api.hosts import AGENT_VERSION
from mooring.agent_api.shares import Protocol
from mooring.errors import Invalid

HypervisorKind = Literal["auto", "libvirt", "simulated"]
Role = Literal["compute", "volume", "share"]


class PoolSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pool of volumes. `path` is absolute, or relative to the agent's state directory."""

    name: str = "local"
    driver: Literal["directory", "simulated", "nfs", "netapp_nfs", "powerstore_nfs", "quobyte"] = (
        "directory"
    )
    path: str = "volumes"
    format: Literal["raw", "qcow2"] = "qcow2"
    reserved_percent: int = 5
    """Of the file system: kept free for everybody else who writes there."""
    oversubscription: float = 20.0
    """How many times its size a thin pool may promise (facts/block_storage.md 11.3)."""
    hosts: tuple[str, ...] = ()
    """The hosts that may have its volumes. Empty: of a directory this host alone, else every host.
    Those of a directory see it under the same path."""
    total_gib: int = 0
    """Of a simulated pool: its size."""
    nfs: NfsOptions | None = None
    """Of a pool of the driver nfs, as those below are of theirs: each takes its own options."""
    netapp_nfs: NetappNfsOptions | None = None
    powerstore_nfs: PowerstoreNfsOptions | None = None
    quobyte: QuobyteOptions | None = None
    online_extend: Literal["compute", "storage"] = "compute"
    """Of a simulated pool: who makes a volume grow that a running guest has."""
    shared_targets: bool = False
    """Of a simulated pool: whether a host has one session for all of its volumes, as with iSCSI."""


class SharePoolSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One pool of shares. `path` is absolute, or relative to the agent's state directory."""

    name: str = "shared"
    driver: Literal["directory", "nfs", "cephfs", "simulated"] = "directory"
    protocol: Protocol = "NFS"
    """Of a simulated pool; every other driver has its own."""
    path: str = "shares"
    reserved_percent: int = 5
    """Of the storage: kept free for everybody else who writes there."""
    oversubscription: float = 1.0
    """How many times its size the pool may promise. A share's size is a promise to its clients:
    above 1 they may find the storage full before."""
    any_address: bool = False
    """Whether a rule may let in every address there is: 0.0.0.0/0 or ::/0."""
    total_gib: int = 0
    """Of a simulated pool: its size."""
    nfs: NfsShareOptions | None = None
    """Of a pool of the driver nfs, as the one below is of its."""
    cephfs: CephfsShareOptions | None = None


class GuestShareSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a host mounts shares for its guests (facts/compute.md 7.5).

    Hosts between which servers with shares move have the same mount point bases.
    """

    share_address: str = ""
    """From which shares of NFS are mounted, so that their rules are for it; empty: the host's."""
    nfs_mount_point_base: str = ""
    """Absolute; empty: in the state directory, or of simulated hosts a place that all have."""
    cephfs_mount_point_base: str = ""
    """The same for CephFS, which has another one."""
    nfs_mount_options: str = ""
    """What `mount -o` takes besides, for shares of NFS."""
    cephfs_options: str = ""
    """Options of ceph-fuse besides, each `NAME=VALUE`, with commas between."""


class MountSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a host mounts shares (facts/block_storage.md 10.2)."""

    nfs_mount_options: str = ""
    """What `mount -o` takes, for the shares of volumes that this host's guests get."""
    quobyte_client_cfg: str = ""
    """The file of a Quobyte client's settings, for the same."""
    program_path: str = ""
    """Directories, with colons between, where mount and umount are looked for before the
    system's own."""
    shares: GuestShareSettings = GuestShareSettings()
    """For the shares of guests, as those above are for their volumes."""
    table: str = "/proc/self/mountinfo"
    """What tells which mounts there are, in the form of proc(5)."""
    timeout_s: float = limits.AGENT_MOUNT_S
    """How long a mount may take."""


class AgentSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One agent. Two agents never share a state directory."""

    name: str
    state_dir: Path
    hypervisor: HypervisorKind = "auto"
    roles: tuple[Role, ...] = ("compute", "volume")
    pools: tuple[PoolSettings, ...] = ()
    """Without any, a host with the role volume has the pool `local` in its state directory."""
    share_pools: tuple[SharePoolSettings, ...] = ()
    """Without any, a host with the role share has the pool `shared` in its state directory."""
    mounts: MountSettings = MountSettings()
    ip: str = "127.0.0.1"
    reserved_memory_mib: int = 512
    """Of the machine: not offered to guests."""
    version: int = AGENT_VERSION
    """What a simulated host reports; a real one reports what it is."""
    hidden_traits: frozenset[str] = frozenset()
    """Traits that a simulated host does not report."""
    vcpus: int = 0
    """Of a simulated host: how many it offers; 0 for 64. Memory and disk go with them."""
    guest_answer_s: float = limits.AGENT_GUEST_ANSWER_S
    """How long a guest's emulator may take to answer one call."""
    move_address: str = ""
    """At which this host's libvirt daemon takes running guests from other hosts; empty: it takes
    none. A simulated host needs none."""
    move_tls: bool | None = None
    """Whether running guests come and go over TLS, and in no other way; None: where the host joined
    and its guests are real."""
    copy_listen: str = ""
    """ADDRESS:PORT at which this host gives disks to other hosts, while it does; empty: at its own
    address, and any port that is free."""
    copy_mib_per_s: int = 0
    """How much it gives in a second, to all of them together; 0 for no bound."""
    image_reserve_mib: int = 0
    """Of the state directory's disk: what images leave free."""
    emulator_user: str = EMULATOR
    """Whom QEMU runs as under a libvirt that an agent of root brings along."""
    passages: tuple[Path, ...] = ()
    """Directories of Mooring's own, on the way to the state directory, which that user passes."""
    guest_start_s: float = limits.AGENT_GUEST_START_S
    """How long one may take to start."""


def check_names(settings: AgentSettings, names: Sequence[str]) -> None:
    """Raise Invalid when pools of one kind have the same name."""
    if len(set(names)) < len(names):
        raise Invalid(
            f"Host {settings.name} has several pools of one name: {', '.join(sorted(names))}. Give "
            "each a name of its own."
        )
