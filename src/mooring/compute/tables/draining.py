"""Hosts that are being emptied."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, false
from sqlalchemy.orm import Mapped, mapped_column

from mooring.compute.tables.base import Base
from mooring.store.base import Json, UtcTime


class HostDrain(Base):
    """The emptying of a host: the one that goes on, or the last one. The rest is in `migrations`.

    status   draining, drained (nothing more can be moved), stopped
    refused  why the API moves a server not at all, by the server's id
    stayed   what was left when it ended: id, name and reason of each server
    """

    __tablename__ = "host_drains"
    __table_args__ = (
        CheckConstraint("status IN ('draining', 'drained', 'stopped')", name="known_drain"),
    )

    host: Mapped[str] = mapped_column(primary_key=True)
    status: Mapped[str]
    user_id: Mapped[str]
    """Who asked for it: the moves are that administrator's."""
    project_id: Mapped[str]
    evacuates: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether the host is dead, so that its servers are evacuated."""
    refused: Mapped[dict[str, str]] = mapped_column(Json, default=dict)
    stayed: Mapped[list[dict[str, str]]] = mapped_column(Json, default=list)
    started_at: Mapped[datetime] = mapped_column(UtcTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcTime)
