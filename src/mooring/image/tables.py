"""What the image service remembers. The data lies in files, whose names stand here.

Source: facts/identity_image_placement.md 8.1 and 8.2.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from mooring.store.base import UtcTime, service_base

Base = service_base("image")
_SMALL_ID = text("lower(id)")
"""What ids are compared by, that differ in their letters alone.

A migration that makes one of these tables anew on SQLite makes the index on this anew, too.
"""

_IMAGE = "images.id"


class ImageRow(Base):
    """One image. It goes with its row: nothing deleted is kept.

    `data_name` is the file with its data, there exactly while the image is active or deactivated.
    """

    __tablename__ = "images"
    __table_args__ = (
        CheckConstraint("status IN ('queued', 'saving', 'active', 'deactivated')", name="status"),
        CheckConstraint(
            "visibility IN ('public', 'community', 'shared', 'private')", name="visibility"
        ),
        CheckConstraint(
            "(status IN ('active', 'deactivated')) = (data_name IS NOT NULL)", name="data"
        ),
        Index("ix_images_owner", "owner", "created_at", "id"),
        Index("ix_images_name", "name"),
        Index("ix_images_visibility", "visibility"),
        Index("ix_images_small_id", _SMALL_ID),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str | None]
    status: Mapped[str] = mapped_column(default="queued")
    visibility: Mapped[str]
    owner: Mapped[str | None]
    disk_format: Mapped[str | None]
    container_format: Mapped[str | None]
    size_bytes: Mapped[int | None]
    virtual_size_bytes: Mapped[int | None]
    checksum: Mapped[str | None]
    os_hash_algo: Mapped[str | None]
    os_hash_value: Mapped[str | None]
    min_disk_gib: Mapped[int] = mapped_column(default=0)
    min_ram_mib: Mapped[int] = mapped_column(default=0)
    protected: Mapped[bool] = mapped_column(default=False)
    os_hidden: Mapped[bool] = mapped_column(default=False)
    data_name: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime] = mapped_column(UtcTime)


class TagRow(Base):
    """One tag of an image."""

    __tablename__ = "image_tags"
    __table_args__ = (Index("ix_image_tags_tag", "tag"),)

    image_id: Mapped[str] = mapped_column(ForeignKey(_IMAGE, ondelete="CASCADE"), primary_key=True)
    tag: Mapped[str] = mapped_column(primary_key=True)


class PropertyRow(Base):
    """One property that a client gave an image beside Glance's own attributes."""

    __tablename__ = "image_properties"
    __table_args__ = (Index("ix_image_properties_name", "name"),)

    image_id: Mapped[str] = mapped_column(ForeignKey(_IMAGE, ondelete="CASCADE"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    value: Mapped[str]


class MemberRow(Base):
    """A project that an image is shared with; `status` is pending, accepted or rejected."""

    __tablename__ = "image_members"
    __table_args__ = (
        CheckConstraint("status IN ('pending', 'accepted', 'rejected')", name="status"),
        Index("ix_image_members_member_id", "member_id"),
    )

    image_id: Mapped[str] = mapped_column(ForeignKey(_IMAGE, ondelete="CASCADE"), primary_key=True)
    member_id: Mapped[str] = mapped_column(primary_key=True)
    status: Mapped[str] = mapped_column(default="pending")
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime] = mapped_column(UtcTime)


class UploadRow(Base):
    """Who owns an image's status `saving`: one process that receives its data.

    `beat_at` is when that process last said so. Without such a row no image is saving.
    """

    __tablename__ = "uploads"

    id: Mapped[str] = mapped_column(primary_key=True)
    image_id: Mapped[str] = mapped_column(ForeignKey(_IMAGE, ondelete="CASCADE"), unique=True)
    owner: Mapped[str]
    beat_at: Mapped[datetime] = mapped_column(UtcTime)


class FormerImageRow(Base):
    """The id of an image that was deleted: no other image may ever have it.

    Servers, hosts' caches and people's scripts go on naming images by id; whoever made another one
    of that id would give them his own data (OSSN-0075).
    """

    __tablename__ = "former_images"
    __table_args__ = (
        Index("ix_former_images_owner", "owner", "deleted_at"),
        Index("ix_former_images_small_id", _SMALL_ID),
    )

    id: Mapped[str] = mapped_column(primary_key=True)
    owner: Mapped[str] = mapped_column(server_default=text("''"))
    """The project that it was of; "" for nobody's, and for what went before this was kept."""
    deleted_at: Mapped[datetime | None] = mapped_column(UtcTime)
