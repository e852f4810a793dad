"""What the share service remembers. Keys of clients are in here only, and sealed."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, ColumnElement, ForeignKey, Index, cast, func
from sqlalchemy.orm import InstrumentedAttribute, Mapped, mapped_column

from mooring.store.base import Json, UtcTime, service_base

Base = service_base("share")

_SHARE = "shares.id"
_TYPE = "share_types.id"


def total(column: InstrumentedAttribute[int]) -> ColumnElement[int]:
    """Return the sum of a column, 0 of no rows. PostgreSQL would make a decimal of it."""
    return cast(func.coalesce(func.sum(column), 0), BigInteger)


class TypeRow(Base):
    """A share type: what kind of shares a pool must be able to make.

    The extra spec `driver_handles_share_servers` is there always, and "False".
    """

    __tablename__ = "share_types"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    description: Mapped[str | None]
    is_public: Mapped[bool] = mapped_column(default=True)
    extra_specs: Mapped[dict[str, str]] = mapped_column(Json, default=dict)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime | None] = mapped_column(UtcTime)


class TypeAccessRow(Base):
    """A project that may use a share type which is not public."""

    __tablename__ = "share_type_access"

    share_type_id: Mapped[str] = mapped_column(
        ForeignKey(_TYPE, ondelete="CASCADE"), primary_key=True
    )
    project_id: Mapped[str] = mapped_column(primary_key=True)


class ShareRow(Base):
    """One share. It goes with its row: nothing deleted is kept.

    `status` has the words of facts/shared_file_systems.md 3.1. What access rules come to
    (`access_rules_status`) is read from the rules, and stands nowhere.
    """

    __tablename__ = "shares"
    __table_args__ = (
        CheckConstraint("size_gib > 0", name="share_has_a_size"),
        Index("shares_of_project", "project_id", "created_at", "id"),
        # These two are all that quotas and pools are summed up from: they have the sizes.
        Index("shares_of_pool", "pool", "size_gib"),
        Index("shares_used", "project_id", "user_id", "share_type_id", "size_gib"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str]
    user_id: Mapped[str]
    name: Mapped[str | None]
    description: Mapped[str | None]
    size_gib: Mapped[int]
    status: Mapped[str]
    protocol: Mapped[str]
    """NFS or CEPHFS."""
    is_public: Mapped[bool] = mapped_column(default=False)
    """Whether every project may see it."""
    share_type_id: Mapped[str] = mapped_column(ForeignKey(_TYPE))
    zone: Mapped[str | None]
    """The availability zone: the one that was asked for, or its pool's; None before it has one."""
    pool: Mapped[str | None]
    """`host@driver#pool`; None before one was chosen."""
    snapshot_support: Mapped[bool] = mapped_column(default=False)
    from_snapshot_support: Mapped[bool] = mapped_column(default=False)
    """Whether shares can be made from its snapshots."""
    labels: Mapped[dict[str, str]] = mapped_column("metadata", Json, default=dict)
    """What the API calls metadata."""
    snapshot_id: Mapped[str | None]
    """The snapshot that it was made from, which may be gone by now."""
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime | None] = mapped_column(UtcTime)
    launched_at: Mapped[datetime | None] = mapped_column(UtcTime)
    """When its storage was ready; None while it never was."""


class ExportRow(Base):
    """Where clients mount a share from. Its id is made of the share's and the path."""

    __tablename__ = "export_locations"
    __table_args__ = (Index("export_locations_of_share", "share_id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    share_id: Mapped[str] = mapped_column(ForeignKey(_SHARE, ondelete="CASCADE"))
    path: Mapped[str]
    preferred: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime | None] = mapped_column(UtcTime)


class RuleRow(Base):
    """One access rule: who may mount a share, and how.

    `state` has the words of facts/shared_file_systems.md 3.2. `client` says the same of every way
    to write one client, so no two rules of a share are for the same. `saga_id` names the saga that
    is to bring the rule out of a transitional state.
    """

    __tablename__ = "access_rules"
    __table_args__ = (
        Index("access_rules_by_client", "share_id", "access_type", "client", unique=True),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    share_id: Mapped[str] = mapped_column(ForeignKey(_SHARE, ondelete="CASCADE"))
    access_type: Mapped[str]
    access_to: Mapped[str]
    """As its user wrote it."""
    client: Mapped[str]
    access_level: Mapped[str]
    state: Mapped[str]
    access_key: Mapped[bytes | None]
    """What a client needs beside its name. Sealed."""
    labels: Mapped[dict[str, str]] = mapped_column("metadata", Json, default=dict)
    saga_id: Mapped[str] = mapped_column(default="")
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime | None] = mapped_column(UtcTime)


class PoolRow(Base):
    """A pool of shares on some host, as its agent last reported it. Capacities in GiB."""

    __tablename__ = "pools"

    name: Mapped[str] = mapped_column(primary_key=True)
    """`host@driver#pool`, OpenStack's name for it."""
    host: Mapped[str]
    driver: Mapped[str]
    pool: Mapped[str]
    zone: Mapped[str]
    protocol: Mapped[str]
    total_gib: Mapped[float]
    free_gib: Mapped[float]
    """What may still be written, the pool's own reserve left out."""
    reserved_percent: Mapped[int]
    thin: Mapped[bool]
    oversubscription: Mapped[float]
    """How many GiB may be promised for each that a thin pool has."""
    has_quota: Mapped[bool]
    """Whether its shares take no more than their size."""
    extends: Mapped[bool]
    shrinks: Mapped[bool]
    has_snapshots: Mapped[bool]
    from_snapshot: Mapped[bool]
    problem: Mapped[str] = mapped_column(default="")
    """Why the pool cannot be used now; empty when it can."""
    disabled: Mapped[bool] = mapped_column(default=False)
    seen_at: Mapped[datetime] = mapped_column(UtcTime)
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class QuotaProjectRow(Base):
    """One row per project: whoever counts a project's usage holds it until the count was used."""

    __tablename__ = "quota_projects"

    project_id: Mapped[str] = mapped_column(primary_key=True)
    takings: Mapped[int] = mapped_column(default=0)


class QuotaRow(Base):
    """A limit that an administrator set; -1 is no limit.

    For a whole project, or within it for one user or for one share type: then that one is not
    empty.
    """

    __tablename__ = "quotas"

    project_id: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(primary_key=True, default="")
    share_type_id: Mapped[str] = mapped_column(primary_key=True, default="")
    resource: Mapped[str] = mapped_column(primary_key=True)
    hard_limit: Mapped[int]


class QuotaClassRow(Base):
    """A limit of a quota class; the class `default` holds for every project without its own."""

    __tablename__ = "quota_classes"

    class_name: Mapped[str] = mapped_column(primary_key=True)
    resource: Mapped[str] = mapped_column(primary_key=True)
    hard_limit: Mapped[int]


class ReservationRow(Base):
    """GiB that a share may take besides when it has grown: they count as used until then.

    Owned by the saga that wrote it.
    """

    __tablename__ = "reservations"
    __table_args__ = (
        CheckConstraint("delta_gib > 0", name="reservation_adds"),
        Index("reservations_of_project", "project_id"),
        Index("reservations_of_share", "share_id"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    share_id: Mapped[str] = mapped_column(ForeignKey(_SHARE, ondelete="CASCADE"))
    project_id: Mapped[str]
    user_id: Mapped[str]
    share_type_id: Mapped[str] = mapped_column(ForeignKey(_TYPE))
    delta_gib: Mapped[int]
    saga_id: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class MessageRow(Base):
    """What a user is told about an operation that failed after it was accepted."""

    __tablename__ = "messages"
    __table_args__ = (Index("messages_of_project", "project_id", "created_at", "id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str]
    action_id: Mapped[str]
    detail_id: Mapped[str]
    text: Mapped[str]
    level: Mapped[str]
    request_id: Mapped[str]
    resource_type: Mapped[str]
    resource_id: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    expires_at: Mapped[datetime] = mapped_column(UtcTime)


class SnapshotRow(Base):
    """One snapshot of a share. `size_gib` is the share's size when it was taken.

    `saga_id` names the saga that is at work on it.
    """

    __tablename__ = "share_snapshots"
    __table_args__ = (
        Index("share_snapshots_of_share", "share_id", "created_at", "id"),
        Index("share_snapshots_of_project", "project_id", "created_at", "id"),
        Index("share_snapshots_used", "project_id", "user_id", "share_id", "size_gib"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    share_id: Mapped[str] = mapped_column(ForeignKey(_SHARE, ondelete="CASCADE"))
    project_id: Mapped[str]
    user_id: Mapped[str]
    name: Mapped[str | None]
    description: Mapped[str | None]
    size_gib: Mapped[int]
    protocol: Mapped[str]
    status: Mapped[str]
    labels: Mapped[dict[str, str]] = mapped_column("metadata", Json, default=dict)
    """What the API calls metadata."""
    saga_id: Mapped[str] = mapped_column(default="")
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime | None] = mapped_column(UtcTime)


class ResourceLockRow(Base):
    """A lock on a share or an access rule, against its deletion or against showing its client.

    `lock_context` is who made it: user, service or admin. `companion_of` is the lock of a rule that
    locks the share as well; empty for one that stands for itself.
    """

    __tablename__ = "resource_locks"
    __table_args__ = (
        Index("resource_locks_of_resource", "resource_id", "resource_action"),
        Index("resource_locks_of_project", "project_id", "created_at", "id"),
        Index("resource_locks_by_companion", "companion_of"),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str]
    project_id: Mapped[str]
    lock_context: Mapped[str]
    resource_type: Mapped[str]
    resource_id: Mapped[str]
    resource_action: Mapped[str]
    lock_reason: Mapped[str | None]
    companion_of: Mapped[str] = mapped_column(default="")
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime | None] = mapped_column(UtcTime)
