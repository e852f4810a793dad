"""How much projects may use of the compute service."""

from __future__ import annotations

from sqlalchemy.orm import Mapped, mapped_column

from mooring.compute.tables.base import Base


class QuotaLimit(Base):
    """A project's own limit on one resource; -1 is no limit. Without a row the default holds."""

    __tablename__ = "quota_limits"

    project_id: Mapped[str] = mapped_column(primary_key=True)
    resource: Mapped[str] = mapped_column(primary_key=True)
    maximum: Mapped[int]


class QuotaDefault(Base):
    """A limit for every project without its own (quota class `default`)."""

    __tablename__ = "quota_defaults"

    resource: Mapped[str] = mapped_column(primary_key=True)
    maximum: Mapped[int]


class QuotaLock(Base):
    """Locked while a project's usage is summed up and added to; usage itself is never stored.

    So are a user's key pairs, under the user's id.
    """

    __tablename__ = "quota_locks"

    project_id: Mapped[str] = mapped_column(primary_key=True)
    takings: Mapped[int] = mapped_column(default=0)
