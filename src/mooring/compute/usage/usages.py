"""What servers took in a period: hours, and sizes times hours (facts/compute.md 11.5).

A server counts from its launch until it was deleted, whatever its state meanwhile, and with the
size that it has, or had last. A rebuild, an evacuation and an unshelving are launches, as upstream.
One that is there yet counts until now, never beyond.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, cast

from msgspec import Struct
from sqlalchemy import or_, select

from mooring.compute.tables import Server
from mooring.errors import Invalid

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

_HOUR = timedelta(hours=1)


class Period(Struct, frozen=True):
    """From when to when, in UTC."""

    start: datetime
    stop: datetime


class Wish(Struct, frozen=True, kw_only=True):
    """What to report on. `project_id` None means all projects; `limit` None all servers."""

    period: Period
    now: datetime
    project_id: str | None = None
    marker: str = ""
    """The server before the first one."""
    limit: int | None = None


class ServerUsage(Struct, frozen=True, kw_only=True):
    """What one server took. Sizes in MiB and GiB."""

    server_id: str
    name: str
    project_id: str
    flavor: str
    vcpus: int
    memory_mib: int
    disk_gib: int
    started_at: datetime
    ended_at: datetime | None
    hours: float
    uptime_s: int
    """Since its launch, not only in the period."""


class Usage(Struct, frozen=True, kw_only=True):
    """What a project's servers took: hours, and sizes times hours."""

    servers: list[ServerUsage]

    @property
    def hours(self) -> float:
        """Hours of all servers together."""
        return sum(one.hours for one in self.servers)

    @property
    def vcpu_hours(self) -> float:
        """VCPUs times hours."""
        return sum(one.vcpus * one.hours for one in self.servers)

    @property
    def memory_mib_hours(self) -> float:
        """MiB of memory times hours."""
        return sum(one.memory_mib * one.hours for one in self.servers)

    @property
    def disk_gib_hours(self) -> float:
        """GiB of disk on hosts times hours."""
        return sum(one.disk_gib * one.hours for one in self.servers)


def report(tx: Session, wish: Wish) -> Mapping[str, Usage]:
    """Return what projects used, by project; those without servers in the period are not in it.

    Raises Invalid for a marker that is no server.
    """
    period = wish.period
    query = (
        select(*_COLUMNS)
        .where(Server.launched_at < period.stop)
        .where(or_(Server.terminated_at.is_(None), Server.terminated_at > period.start))
        .order_by(Server.id)
    )
    if wish.project_id is not None:
        query = query.where(Server.project_id == wish.project_id)
    if wish.marker:
        # Whose it is is looked at below.
        marker = tx.get(Server, wish.marker)
        if marker is None or wish.project_id not in {None, marker.project_id}:
            raise Invalid(f"marker [{wish.marker}] not found")
        query = query.where(Server.id > wish.marker)
    rows = cast("Sequence[Server]", tx.execute(query.limit(wish.limit)).all())
    found: dict[str, list[ServerUsage]] = {}
    for row in rows:
        found.setdefault(row.project_id, []).append(_measure(row, wish))
    return {project: Usage(servers=found[project]) for project in sorted(found)}


_COLUMNS = (
    Server.id,
    Server.name,
    Server.project_id,
    Server.flavor_name,
    Server.vcpus,
    Server.memory_mib,
    Server.disk_gib,
    Server.ephemeral_gib,
    Server.launched_at,
    Server.terminated_at,
)


def _measure(row: Server, wish: Wish) -> ServerUsage:
    started = cast("datetime", row.launched_at)
    ended = row.terminated_at or wish.now
    took = min(ended, wish.period.stop) - max(started, wish.period.start)
    return ServerUsage(
        server_id=row.id,
        name=row.name,
        project_id=row.project_id,
        flavor=row.flavor_name,
        vcpus=row.vcpus,
        memory_mib=row.memory_mib,
        disk_gib=row.disk_gib + row.ephemeral_gib,
        started_at=started,
        ended_at=row.terminated_at,
        hours=max(took / _HOUR, 0.0),
        uptime_s=int((ended - started).total_seconds()),
    )
