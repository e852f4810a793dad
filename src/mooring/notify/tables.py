"""The outbox. It lives in the database of the service whose rows the notifications tell of."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Index, String
from sqlalchemy.orm import Mapped, mapped_column

from mooring.store.base import Json, UtcTime, service_base

Base = service_base("notify")


class OutboxRow(Base):
    """One notification on its way to one target. It goes once the target has it."""

    __tablename__ = "notify_outbox"
    __table_args__ = (
        Index("ix_notify_outbox_target", "target", "id"),
        Index("ix_notify_outbox_created_at", "created_at"),
    )

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    target: Mapped[str] = mapped_column(String(32))
    message_id: Mapped[str] = mapped_column(String(36))
    """The same for all targets and all deliveries, so that a receiver knows a repetition."""
    event_type: Mapped[str] = mapped_column(String(255))
    publisher: Mapped[str] = mapped_column(String(255))
    priority: Mapped[str] = mapped_column(String(8))
    payload: Mapped[Any] = mapped_column(Json)
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class DelivererRow(Base):
    """Who delivers to a target, until when: where several processes share the database."""

    __tablename__ = "notify_deliverers"

    target: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str] = mapped_column(String(64))
    lease_until: Mapped[datetime] = mapped_column(UtcTime)
