"""What the servers of each host take, as administrators see it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mooring.compute.tables import Server


class HostUsage(Struct, frozen=True):
    """Sums over the servers of one host; memory in MiB, disk in GiB, `busy` those with a task."""

    servers: int = 0
    vcpus: int = 0
    memory_mib: int = 0
    disk_gib: int = 0
    busy: int = 0


def by_host(tx: Session) -> dict[str, HostUsage]:
    """Return the usage of every host that has servers. Roots on volumes take no disk here."""
    local_gib = func.sum(Server.disk_gib).filter(Server.image_id != "")
    query = (
        select(
            Server.host,
            func.count(),
            func.sum(Server.vcpus),
            func.sum(Server.memory_mib),
            func.coalesce(local_gib, 0),
            func.count(Server.task_state),
        )
        .where(Server.host.is_not(None), Server.deleted_at.is_(None))
        .group_by(Server.host)
    )
    return {host: HostUsage(*sums) for host, *sums in tx.execute(query) if host is not None}


def servers_by_host(tx: Session, names: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    """Return id and name of the servers of these hosts, by host."""
    found: dict[str, list[tuple[str, str]]] = {}
    query = select(Server.host, Server.id, Server.name).where(
        Server.host.in_(names), Server.deleted_at.is_(None)
    )
    for host, server_id, name in tx.execute(query.order_by(Server.created_at, Server.id)):
        found.setdefault(host or "", []).append((server_id, name))
    return found
