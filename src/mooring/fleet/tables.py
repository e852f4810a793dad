"""What the fleet remembers: the cloud's own authority, and the hosts that it lets in."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, false
from sqlalchemy.orm import Mapped, mapped_column

from mooring.store.base import UtcTime, service_base

Base = service_base("fleet")


class AuthorityRow(Base):
    """An authority: that for hosts, and that for their moves. Its key is sealed (`saga.seal`)."""

    __tablename__ = "authorities"

    name: Mapped[str] = mapped_column(primary_key=True)
    certificate: Mapped[str]
    sealed_key: Mapped[bytes]
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class HostRow(Base):
    """One host: `invited` until it has joined, `leaving` while it is removed.

    Of its token a digest is kept. `enrolment` stands in the certificates of this joining and of no
    other: those of a host that was removed are worth nothing, whoever has its name after it.
    """

    __tablename__ = "hosts"
    __table_args__ = (
        CheckConstraint("status IN ('invited', 'joined', 'leaving')", name="status"),
        CheckConstraint("(status = 'invited') = (certificate IS NULL)", name="certificate"),
        CheckConstraint("(status = 'invited') = (address IS NULL)", name="address"),
        CheckConstraint("(status = 'invited') = (key_digest IS NULL)", name="key"),
    )

    name: Mapped[str] = mapped_column(primary_key=True)
    roles: Mapped[list[str]]
    status: Mapped[str]
    enrolment: Mapped[str] = mapped_column(unique=True)
    token_digest: Mapped[str] = mapped_column(unique=True)
    token_until: Mapped[datetime] = mapped_column(UtcTime)
    key_digest: Mapped[str | None]
    certificate: Mapped[str | None]
    address: Mapped[str | None]
    gone: Mapped[bool] = mapped_column(default=False, server_default=false())
    """Whether one that is leaving never runs again: what it owes is struck."""
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    joined_at: Mapped[datetime | None] = mapped_column(UtcTime)
