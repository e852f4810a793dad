"""Shares that servers have, and the hosts that are let in to them (facts/compute.md 7.2)."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from mooring.compute.tables.base import Base
from mooring.store.base import UtcTime


class ShareMapping(Base):
    """A share that a server has, or is about to have.

    status  attaching: a host is being let in
            inactive:  the server has it, and does not run with it
            active:    the server runs with it
            detaching: its hosts are being kept out again
            error:     it could not be attached, or what was done to it was given up
    Shares are listed in the order of `position`.
    """

    __tablename__ = "share_mappings"
    __table_args__ = (
        UniqueConstraint("server_id", "share_id", name="one_mapping_for_each_share"),
        UniqueConstraint("server_id", "tag", name="one_mapping_for_each_tag"),
        CheckConstraint(
            "status IN ('attaching', 'inactive', 'active', 'detaching', 'error')",
            name="known_status",
        ),
        CheckConstraint("protocol IN ('NFS', 'CEPHFS')", name="known_protocol"),
        Index("share_mappings_of_share", "share_id"),
    )

    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=True)
    id: Mapped[str] = mapped_column(unique=True)
    """Shown as uuid."""
    server_id: Mapped[str] = mapped_column(ForeignKey("servers.id"))
    share_id: Mapped[str]
    tag: Mapped[str]
    """By which the guest finds it."""
    status: Mapped[str] = mapped_column(default="attaching")
    export_location: Mapped[str]
    """As the share service had it when the share was attached."""
    protocol: Mapped[str]
    access_to: Mapped[str] = mapped_column(default="")
    """The cephx id that all hosts are let in by; empty for NFS, which lets in each by its own
    address (`SharePlace`)."""
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime] = mapped_column(UtcTime)


class SharePlace(Base):
    """A host that is let in to a server's share, or about to be; two between a move and its end.

    state   granting: an operation has the share service let the host in
            granted:  the host is let in
            mounted:  and has the share mounted for the server
            leaving:  the server is there no more, and the host is still to let go; others may rely
                      on the rule
            revoking: an operation has the share service keep the host out; nobody may rely on the
                      rule any more
    """

    __tablename__ = "share_places"
    __table_args__ = (
        CheckConstraint(
            "state IN ('granting', 'granted', 'mounted', 'leaving', 'revoking')",
            name="known_state",
        ),
    )

    mapping_id: Mapped[str] = mapped_column(
        ForeignKey("share_mappings.id", ondelete="CASCADE"), primary_key=True
    )
    host: Mapped[str] = mapped_column(primary_key=True)
    access_to: Mapped[str]
    """Whom the rule lets in for this host: its address, or the cephx id of all hosts."""
    rule_id: Mapped[str | None]
    """The rule that was made or found; None while there is none."""
    rule_is_ours: Mapped[bool | None]
    """Whether this service made it; None where that was not noted, which its metadata tells."""
    tries: Mapped[int] = mapped_column(default=0)
    """How many rules in error were denied, since the host was last let in, to make a new one."""
    path: Mapped[str | None]
    """Where the host has it mounted."""
    state: Mapped[str] = mapped_column(default="granting")
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime] = mapped_column(UtcTime)
