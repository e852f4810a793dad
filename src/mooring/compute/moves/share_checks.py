"""What is seen of a server's shares before it moves while it is off (specs 003)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.hosts import hosts
from mooring.compute.scheduling import mounting
from mooring.compute.shares import mappings
from mooring.errors import Conflict, Invalid

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.tables import Host, Server

_AT_REST = frozenset({"inactive", "active"})


def check(tx: Session, server: Server, *, is_asked_for: bool) -> None:
    """Raise Conflict unless a server's shares can go along; it may have none.

    It `is_asked_for` from microversion 2.106 on, and every host has to be new enough: a dead one
    counts until it is removed (facts/compute.md 7.7).
    """
    rows = mappings.of_server(tx, server.id)
    if not rows:
        return
    if not is_asked_for:
        raise Conflict(
            f"Feature not supported with instances that have shares: instance {server.id} has "
            "some, and goes with them from microversion 2.106 on. Nothing was changed; ask with "
            "openstack --os-compute-api-version 2.106, or detach the shares.",
            lasts=True,
        )
    hosts.require_moving_shares(tx)
    for row in rows:
        if row.status not in _AT_REST:
            raise Conflict(
                f"Share {row.share_id} of instance {server.id} is {row.status}. Nothing was "
                "changed; wait until it is attached or gone, or detach it."
            )


def check_bases(tx: Session, server: Server, source: Host, wished: str | None) -> None:
    """Raise Invalid where no host that may be chosen mounts shares where the server's host does.

    `wished` is the host that was asked for; None is any other one.
    """
    rows = mappings.of_server(tx, server.id)
    if not rows:
        return
    mounts = mounting.bases_for(source, (row.protocol for row in rows))
    others = [host for host in hosts.find_all(tx) if host.name != source.name]
    refusals = {
        host.name: mounting.refusal(mounts, host) for host in others if wished in {None, host.name}
    }
    if not refusals or not all(refusals.values()):
        return
    why = ", ".join(f"{name} is {words}" for name, words in refusals.items())
    raise Invalid(
        f"The shares of instance {server.id} cannot be mounted elsewhere as on host {source.name}: "
        f"{why}. Nothing was changed; set the same mount bases on the hosts, or choose another one."
    )
