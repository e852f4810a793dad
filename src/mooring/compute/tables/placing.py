"""What decides where servers may be: groups of servers."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index
from sqlalchemy.orm import Mapped, mapped_column

from mooring.compute.tables.base import Base
from mooring.store.base import UtcTime


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
