"""Backups of volumes."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "volume_0010"
# 0008 is another branch's, and comes between the two.
down_revision = "volume_0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "backups",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("volume_id", sa.String(), nullable=False),
        sa.Column("snapshot_id", sa.String(), nullable=True),
        sa.Column("size_gib", types.INTEGER, nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("container", sa.String(), nullable=True),
        sa.Column("fail_reason", sa.String(), nullable=True),
        sa.Column("object_count", types.INTEGER, nullable=False),
        sa.Column("metadata", types.Json(), nullable=False),
        sa.Column("bootable", sa.Boolean(), nullable=False),
        sa.Column("image_metadata", types.Json(), nullable=False),
        sa.Column("saga_id", sa.String(), nullable=False),
        sa.Column("borrowed_by", sa.String(), nullable=False),
        sa.Column("data_at", types.UtcTime(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backups")),
    )
    with op.batch_alter_table("backups", schema=None) as batch_op:
        batch_op.create_index("backups_of_project", ["project_id", "created_at", "id"])
        batch_op.create_index("backups_used", ["project_id", "size_gib"])
