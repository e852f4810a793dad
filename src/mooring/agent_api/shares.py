"""Shares in the pools of a host: their exports, access rules and snapshots.

Sizes are whole GiB, as the shared file system API counts them under the name `size_gb`.
Source: facts/shared_file_systems.md 4 and 12.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

Protocol = Literal["NFS", "CEPHFS"]
AccessType = Literal["ip", "cephx"]
AccessLevel = Literal["rw", "ro"]
IN_USE_SPACE = "share_in_use_space"
"""In the detail `code` of the Conflict that refuses to make a share smaller than what is in it."""


class ShareSnapshotName(Struct, frozen=True):
    """A snapshot of a share in the same pool."""

    share: str
    snapshot: str


class ShareSpec(Struct, frozen=True, kw_only=True):
    """Body of `PUT /shares/{share_id}`: so big, empty or with a snapshot's content.

    A share smaller than the snapshot's is Invalid, and so is a protocol that the pool has not.
    """

    pool: str
    protocol: Protocol
    size_gb: int
    snapshot: ShareSnapshotName | None = None


class ExportLocation(Struct, frozen=True):
    """Where clients mount a share from: `host:/path`, of CephFS `monitor:port,...:/path`."""

    path: str
    preferred: bool = True


class ShareExports(Struct, frozen=True):
    """All locations of a share. Nobody may mount it before a rule says so."""

    exports: list[ExportLocation]


class ShareSizeRequest(Struct, frozen=True, kw_only=True):
    """Body of `PUT /shares/{share_id}/size`: so big from now on, larger or smaller."""

    pool: str
    size_gb: int


class ShareSize(Struct, frozen=True):
    """How big a share is."""

    size_gb: int


class AccessRule(Struct, frozen=True, kw_only=True):
    """Body of `PUT /shares/{share_id}/access/{rule_id}`: who may mount it, and how.

    `to` is an IP address or network of type `ip`, and a cephx id, without `client.`, of `cephx`.
    """

    pool: str
    type: AccessType
    to: str
    level: AccessLevel = "rw"
    project_id: str = ""
    """Whose share it is. A cephx id belongs to one project: needed for it, else everybody who knows
    an id would get its key."""


class AccessGranted(Struct, frozen=True):
    """What a client of the rule needs beside the export location: a key of CephFS. A secret."""

    access_key: str | None = None


class ShareSnapshotSpec(Struct, frozen=True):
    """Body of `PUT /shares/{share_id}/snapshots/{snapshot_id}`."""

    pool: str


class GrantedRule(Struct, frozen=True, kw_only=True):
    """A rule as a share's storage has it."""

    rule_id: str
    type: AccessType
    to: str
    level: AccessLevel


class HostedShare(Struct, frozen=True, kw_only=True):
    """A share as its pool holds it."""

    share_id: str
    pool: str
    protocol: Protocol
    size_gb: int
    used_bytes: int | None = None
    """None: nobody has looked, as in an inventory of some drivers."""
    exports: list[ExportLocation] = []
    rules: list[GrantedRule] = []
    """By id. What was granted by others than this host's pool is not among them."""
    snapshots: list[str] = []
    """Ids, sorted."""
    problem: str = ""
    """Why clients do not have it now, and what to do; empty when they do. Of one that is damaged,
    rules and snapshots may be missing here, and the size is that of its file."""


class SharePool(Struct, frozen=True, kw_only=True):
    """One place for shares on a host. Sizes in GiB; `free_gib` already leaves out the reserve."""

    name: str
    driver: str
    protocol: Protocol
    total_gib: float
    free_gib: float
    provisioned_gib: int = 0
    shares: int = 0
    reserved_percent: int = 0
    thin: bool = True
    oversubscription: float = 1.0
    """How often its size a thin pool may promise."""
    quota: bool = True
    """Whether a share takes no more than its size. Without, only making it smaller looks."""
    extends: bool = True
    """Whether a share in use can be made larger."""
    shrinks: bool = True
    """Whether a share in use can be made smaller."""
    snapshots: bool = False
    from_snapshot: bool = False
    """Whether a share can be made with a snapshot's content."""
    problem: str = ""
    """Why the pool cannot be used now; empty when it can."""
