"""What decides where servers may be: groups of servers, aggregates of hosts."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from mooring.compute.tables.base import Base
from mooring.store.base import Json, UtcTime
from mooring.store.numbers import NEVER_AGAIN


class ServerGroup(Base):
    """Servers that are to be on one host, or on different ones (facts/compute.md 11.5)."""

    __tablename__ = "server_groups"
    __table_args__ = (
        CheckConstraint(
            "policy IN ('affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity')",
            name="known_policy",
        ),
        Index("server_groups_of_project", "project_id"),
    )

    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    """Groups are listed in this order."""
    id: Mapped[str] = mapped_column(unique=True)
    project_id: Mapped[str]
    user_id: Mapped[str]
    name: Mapped[str]
    policy: Mapped[str]
    max_server_per_host: Mapped[int | None]
    """How many an anti-affinity group may have on one host; None is one."""
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class ServerGroupMember(Base):
    """A server of a group. It is in no other one, and leaves the group when it is deleted."""

    __tablename__ = "server_group_members"
    __table_args__ = (Index("server_group_members_of_group", "group_id"),)

    server_id: Mapped[str] = mapped_column(
        ForeignKey("servers.id", ondelete="CASCADE"), primary_key=True
    )
    group_id: Mapped[str] = mapped_column(ForeignKey("server_groups.id", ondelete="CASCADE"))
    bound_for: Mapped[str | None]
    """The host that it is about to be on, beside the one where it is; for the other members it
    counts as being there."""


class Aggregate(Base):
    """Hosts that belong together; with a zone they are that availability zone.

    Its metadata says which servers its hosts are for (`compute/scheduling/filters.py`).
    """

    __tablename__ = "aggregates"
    __table_args__ = NEVER_AGAIN

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    uuid: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str] = mapped_column(unique=True)
    zone: Mapped[str | None]
    """Shown as availability_zone, and once more in the metadata."""
    details: Mapped[dict[str, str]] = mapped_column("metadata", Json, default=dict)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime | None] = mapped_column(UtcTime)


class AggregateHost(Base):
    """A host in an aggregate, by its name. It may be in several, but in one zone only."""

    __tablename__ = "aggregate_hosts"
    __table_args__ = (Index("aggregate_hosts_of_host", "host"),)

    aggregate_id: Mapped[int] = mapped_column(
        ForeignKey("aggregates.id", ondelete="CASCADE"), primary_key=True
    )
    host: Mapped[str] = mapped_column(primary_key=True)
