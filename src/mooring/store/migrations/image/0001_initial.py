"""Initial."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "image_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "images",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("visibility", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=True),
        sa.Column("disk_format", sa.String(), nullable=True),
        sa.Column("container_format", sa.String(), nullable=True),
        sa.Column("size_bytes", types.INTEGER, nullable=True),
        sa.Column("virtual_size_bytes", types.INTEGER, nullable=True),
        sa.Column("checksum", sa.String(), nullable=True),
        sa.Column("os_hash_algo", sa.String(), nullable=True),
        sa.Column("os_hash_value", sa.String(), nullable=True),
        sa.Column("min_disk_gib", types.INTEGER, nullable=False),
        sa.Column("min_ram_mib", types.INTEGER, nullable=False),
        sa.Column("protected", sa.Boolean(), nullable=False),
        sa.Column("os_hidden", sa.Boolean(), nullable=False),
        sa.Column("data_name", sa.String(), nullable=True),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=False),
        sa.CheckConstraint(
            "(status IN ('active', 'deactivated')) = (data_name IS NOT NULL)",
            name=op.f("ck_images_data"),
        ),
        sa.CheckConstraint(
            "status IN ('queued', 'saving', 'active', 'deactivated')", name=op.f("ck_images_status")
        ),
        sa.CheckConstraint(
            "visibility IN ('public', 'community', 'shared', 'private')",
            name=op.f("ck_images_visibility"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_images")),
    )
    op.create_index("ix_images_name", "images", ["name"], unique=False)
    op.create_index("ix_images_owner", "images", ["owner", "created_at", "id"], unique=False)
    op.create_index("ix_images_visibility", "images", ["visibility"], unique=False)
    op.create_table(
        "image_members",
        sa.Column("image_id", sa.String(), nullable=False),
        sa.Column("member_id", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=False),
        sa.CheckConstraint(
            "status IN ('pending', 'accepted', 'rejected')", name=op.f("ck_image_members_status")
        ),
        sa.ForeignKeyConstraint(
            ["image_id"], ["images.id"], name=op.f("fk_image_members_image_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("image_id", "member_id", name=op.f("pk_image_members")),
    )
    op.create_index("ix_image_members_member_id", "image_members", ["member_id"], unique=False)
    op.create_table(
        "image_properties",
        sa.Column("image_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("value", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["image_id"],
            ["images.id"],
            name=op.f("fk_image_properties_image_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("image_id", "name", name=op.f("pk_image_properties")),
    )
    op.create_index("ix_image_properties_name", "image_properties", ["name"], unique=False)
    op.create_table(
        "image_tags",
        sa.Column("image_id", sa.String(), nullable=False),
        sa.Column("tag", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["image_id"], ["images.id"], name=op.f("fk_image_tags_image_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("image_id", "tag", name=op.f("pk_image_tags")),
    )
    op.create_index("ix_image_tags_tag", "image_tags", ["tag"], unique=False)
    op.create_table(
        "uploads",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("image_id", sa.String(), nullable=False),
        sa.Column("owner", sa.String(), nullable=False),
        sa.Column("beat_at", types.UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["image_id"], ["images.id"], name=op.f("fk_uploads_image_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_uploads")),
        sa.UniqueConstraint("image_id", name=op.f("uq_uploads_image_id")),
    )
