"""The protocol of a share driver, and what all of them answer alike.

Source: facts/shared_file_systems.md 4 and 12, facts/distributed_storage.md 2 and 3. Every method
may be repeated. Calls about one share come one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from ipaddress import ip_network
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from mooring.agent.settings import SharePoolSettings
from mooring.agent_api.shares import (
    IN_USE_SPACE,
    AccessType,
    ExportLocation,
    GrantedRule,
    HostedShare,
    SharePool,
    ShareSnapshotName,
)
from mooring.agent_api.shares import Protocol as Wire
from mooring.errors import Conflict, Invalid, NoCapacity, NotFound

TYPES: dict[Wire, AccessType] = {"NFS": "ip", "CEPHFS": "cephx"}
"""The one type of access that clients of a protocol are known by."""
_CEPHX = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
# Upstream's driver refuses its own id, and the storage those that it has not made.
_RESERVED = {"admin"}


class Grant(Struct, frozen=True, kw_only=True):
    """A rule that is to hold: as it is kept, and for whose project."""

    rule: GrantedRule
    project_id: str = ""


class ShareDriver(Protocol):
    """One pool."""

    @property
    def pool(self) -> SharePoolSettings:
        """What the pool was set up as."""
        ...

    @property
    def protocol(self) -> Wire:
        """By which its shares are mounted."""
        ...

    async def setup(self) -> None:
        """Make ready, and remove what unfinished calls have left. Raises Unavailable."""
        ...

    async def close(self) -> None:
        """Let go; clients go on."""
        ...

    async def stats(self) -> SharePool:
        """Return what the pool has and holds."""
        ...

    async def shares(self) -> list[HostedShare]:
        """Return all shares of the pool, without what is in them."""
        ...

    async def find(self, share_id: str) -> HostedShare | None:
        """Return a share and how much is in it, or None."""
        ...

    async def create(
        self, share_id: str, size_gb: int, source: ShareSnapshotName | None, operation_key: str
    ) -> list[ExportLocation]:
        """Make a share, empty or with a snapshot's content, or find it; nobody may mount it yet.

        Raises NoCapacity, Invalid (smaller than the snapshot, no snapshots here), NotFound (no such
        snapshot), Conflict (there with another size).
        """
        ...

    async def delete(self, share_id: str) -> None:
        """Revoke all its rules, then remove a share and all that was begun of it.

        Raises Conflict while it has snapshots.
        """
        ...

    async def resize(self, share_id: str, size_gb: int, operation_key: str) -> None:
        """Make a share as big as that, larger or smaller, or find it so; clients go on.

        Raises Conflict as `refuse_smaller` does, NoCapacity, NotFound.
        """
        ...

    async def grant(self, share_id: str, grant: Grant) -> str | None:
        """Let a client in, change how, or repair that; returns its key, of those that have one.

        Raises NotFound, Conflict (another rule has the client, or somebody else its id).
        """
        ...

    async def revoke(self, share_id: str, rule_id: str) -> None:
        """Let a client in no more; returns when even one that has mounted the share is out."""
        ...

    async def take_snapshot(self, share_id: str, snapshot_id: str) -> None:
        """Keep what is in a share now, or find it kept. Raises NotFound, NoCapacity, Invalid."""
        ...

    async def delete_snapshot(self, share_id: str, snapshot_id: str) -> None:
        """Remove a snapshot. Shares that were made from it stay."""
        ...

    async def leftovers(self) -> list[str]:
        """Return what is in the pool and belongs to no share: paths, or names of the storage's."""
        ...


class WithoutSnapshots:
    """The part of a driver whose storage keeps no snapshots."""

    async def take_snapshot(self, share_id: str, snapshot_id: str) -> None:
        raise no_snapshots(share_id, snapshot_id)

    async def delete_snapshot(self, share_id: str, snapshot_id: str) -> None:
        del share_id, snapshot_id


def no_snapshots(share_id: str, snapshot_id: str) -> Invalid:
    """Return what a pool without snapshots answers."""
    return Invalid(
        f"Share {share_id} is in a pool without snapshots, so there is no snapshot {snapshot_id}. "
        "Nothing was changed; use a share type whose pool has snapshots."
    )


def no_copies(source: ShareSnapshotName) -> Invalid:
    """Return what a pool answers that takes snapshots and makes no share from one."""
    return Invalid(
        f"The pool of share {source.share} makes no share from snapshot {source.snapshot}: its "
        "clients would reach the other share's data. Nothing was made; copy what is needed by a "
        "client."
    )


def used_elsewhere(client: str) -> Conflict:
    """Return what refuses a cephx id that the storage has given to somebody else."""
    return Conflict(
        f"The cephx id {client} is in use by another project, or by the storage. Nobody was let "
        "in; choose another id."
    )


def check_rule(driver: ShareDriver, grant: Grant) -> Grant:
    """Return a rule as storage takes it, an address as its network. Raises Invalid."""
    rule, protocol = grant.rule, driver.protocol
    if rule.type != TYPES[protocol]:
        raise Invalid(
            f"Shares of {protocol} know their clients by {TYPES[protocol]}, not by {rule.type}. "
            "Nobody was let in; ask for a rule of that type."
        )
    if rule.type == "ip":
        return replace(grant, rule=replace(rule, to=_network(rule.to, driver.pool)))
    if not _CEPHX.fullmatch(rule.to) or rule.to in _RESERVED:
        raise Invalid(
            f"'{rule.to[:64]}' cannot be the cephx id of a client: 1 to 64 letters, digits, "
            "hyphens and underscores, and none that the storage uses itself. Nobody was let in."
        )
    if not grant.project_id:
        raise Invalid(
            f"The rule for {rule.to} names no project, so that another project's client of that "
            "name would get in. Nobody was let in."
        )
    return grant


def check_client_is_free(rules: Iterable[GrantedRule], rule: GrantedRule) -> None:
    """Raise Conflict when another rule of a share is for the same client."""
    for other in rules:
        if other.rule_id != rule.rule_id and other.to == rule.to:
            raise Conflict(
                f"Rule {other.rule_id} is for {rule.to} already. Nothing was changed; revoke that "
                "one first."
            )


def check_same(known: HostedShare, size_gb: int) -> list[ExportLocation]:
    """Return the exports of a share that is there. Raises Conflict when it has another size."""
    if known.size_gb != size_gb:
        raise Conflict(
            f"Share {known.share_id} is there already with {known.size_gb} GiB; delete it before "
            "making another of this id."
        )
    return known.exports


def check_room(pool: SharePool, settings: SharePoolSettings, more_gb: int) -> None:
    """Raise NoCapacity unless the pool may promise so many GiB more."""
    usable = pool.total_gib * (1 - pool.reserved_percent / 100) * settings.oversubscription
    if pool.free_gib > 0 and pool.provisioned_gib + more_gb <= usable:
        return
    raise NoCapacity(
        f"Pool {pool.name} has no room for {more_gb} GiB more: {pool.free_gib:.1f} GiB are free "
        f"beside the {pool.reserved_percent} % that it keeps, {pool.provisioned_gib} of "
        f"{usable:.1f} GiB promised. Delete shares or add storage."
    )


def check_source_fits(source: ShareSnapshotName, of_gb: int, size_gb: int) -> None:
    """Raise Invalid when a share would be smaller than the snapshot it is made from."""
    if size_gb < of_gb:
        raise Invalid(
            f"Snapshot {source.snapshot} is of a share of {of_gb} GiB; {size_gb} GiB is too small. "
            "Ask for a larger share."
        )


def require(known: HostedShare | None, share_id: str) -> HostedShare:
    """Return a share. Raises NotFound when there is none."""
    if known is None:
        raise NotFound(f"Share {share_id} is not in this pool.")
    return known


def require_snapshot(known: HostedShare | None, name: ShareSnapshotName) -> HostedShare:
    """Return the share of a snapshot. Raises NotFound unless both are there."""
    if known is None or name.snapshot not in known.snapshots:
        raise NotFound(
            f"Share {name.share} has no snapshot {name.snapshot} in this pool. Nothing was made."
        )
    return known


def refuse_with_snapshots(share_id: str, snapshots: Sequence[str]) -> None:
    """Raise Conflict while a share has snapshots."""
    if snapshots:
        raise Conflict(
            f"Share {share_id} has the snapshots {', '.join(snapshots)}; delete those first. "
            "Nothing was changed."
        )


def refuse_smaller(share_id: str, size_gb: int, private: str = "") -> Conflict:
    """Return what refuses to make a share smaller than what is in it."""
    return Conflict(
        f"More than {size_gb} GiB of share {share_id} are in use. It was left as it is; remove "
        "files, or ask for a larger size.",
        private=private,
        code=IN_USE_SPACE,
    )


def _network(to: str, pool: SharePoolSettings) -> str:
    try:
        # Of IPv6 there may be a zone behind the address, which no server of shares takes.
        network = ip_network("" if "%" in to else to)
    except ValueError as error:
        raise Invalid(
            f"'{to[:64]}' is neither an IP address nor a network without bits for hosts. Nobody "
            "was let in."
        ) from error
    if network.num_addresses == 1 and network.network_address.is_unspecified:
        raise Invalid(
            f"{to} is no client's address, and Ganesha takes it for everybody. Nobody was let in; "
            "name the clients' networks."
        )
    if network.prefixlen == 0 and not pool.any_address:
        raise Invalid(
            f"{to} lets in everybody, which pool {pool.name} does not allow. Nobody was let in; "
            "name the clients' networks, or have the pool set to any_address."
        )
    return str(network)
