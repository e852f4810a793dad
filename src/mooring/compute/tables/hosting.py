"""Hosts, and how they were fenced."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint
from sqlalchemy.orm import Mapped, mapped_column

from mooring.compute.tables.base import Base
from mooring.store.base import Json, UtcTime
from mooring.store.numbers import NEVER_AGAIN


class Host(Base):
    """A host, as its agent's last answer described it; shown as its `nova-compute` service."""

    __tablename__ = "hosts"
    __table_args__ = NEVER_AGAIN

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    """The service id up to 2.52."""
    name: Mapped[str] = mapped_column(unique=True)
    service_uuid: Mapped[str] = mapped_column(unique=True)
    provider_id: Mapped[str] = mapped_column(unique=True)
    """The resource provider's id, and the hypervisor's from 2.53."""
    version: Mapped[int]
    """The service version that gates compare (facts/compute.md 12.1)."""
    incarnation: Mapped[str]
    zone: Mapped[str] = mapped_column(default="nova")
    disabled: Mapped[bool] = mapped_column(default=False)
    disabled_reason: Mapped[str | None]
    forced_down: Mapped[bool] = mapped_column(default=False)
    forced_down_at: Mapped[datetime | None] = mapped_column(UtcTime)
    forced_down_by: Mapped[str | None]
    """The id of the user who fenced it or said that it is down."""
    forced_down_why: Mapped[str | None]
    """What proves that it is; None with the two above for one that an earlier release was told of.
    """
    lifted_at: Mapped[datetime | None] = mapped_column(UtcTime)
    """When an administrator last said that it is up again."""
    hypervisor: Mapped[str]
    """libvirt or simulated."""
    hypervisor_version: Mapped[int] = mapped_column(default=0, server_default="0")
    """As QEMU counts: 7002000 is 7.2.0."""
    ip: Mapped[str] = mapped_column(default="", server_default="")
    """Where it is, as its agent says; empty until it has said so."""
    accelerator: Mapped[str]
    """kvm, tcg or none."""
    vcpus: Mapped[int]
    memory_mib: Mapped[int]
    disk_gib: Mapped[int]
    traits: Mapped[list[str]] = mapped_column(Json, default=list)
    share_address: Mapped[str] = mapped_column(default="", server_default="")
    """Whom access rules of NFS shares let in for it."""
    mount_bases: Mapped[dict[str, str]] = mapped_column(Json, default=dict, server_default="{}")
    """By protocol, below which directory it mounts shares (specs 003, mount path compatibility)."""
    announced: Mapped[str] = mapped_column(default="")
    """Digest of what placement was last told about it."""
    last_seen_at: Mapped[datetime] = mapped_column(UtcTime)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime] = mapped_column(UtcTime)


class HostFencing(Base):
    """The fencing of a host: the one that goes on, or the last one.

    status    fencing (an operation with the lock `host:<name>` is at it), fenced, failed
    silent_s  for how many seconds the host was silent when it was fenced by itself; 0 for one that
              an administrator asked for
    failures  how many in a row came to nothing
    """

    __tablename__ = "host_fencings"
    __table_args__ = (
        CheckConstraint("status IN ('fencing', 'fenced', 'failed')", name="known_fencing"),
    )

    host: Mapped[str] = mapped_column(primary_key=True)
    status: Mapped[str]
    user_id: Mapped[str]
    silent_s: Mapped[int] = mapped_column(default=0)
    failures: Mapped[int] = mapped_column(default=0)
    error: Mapped[str] = mapped_column(default="")
    """Why it failed; empty unless it did."""
    started_at: Mapped[datetime] = mapped_column(UtcTime)
    ended_at: Mapped[datetime | None] = mapped_column(UtcTime)
