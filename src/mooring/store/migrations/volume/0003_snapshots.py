"""Snapshots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "volume_0003"
down_revision = "volume_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "snapshots",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("volume_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("size_gib", types.INTEGER, nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("progress", types.INTEGER, nullable=False),
        sa.Column("metadata", types.Json(), nullable=False),
        sa.Column("saga_id", sa.String(), nullable=False),
        sa.Column("told", sa.String(), nullable=False),
        sa.Column("borrowed_by", sa.String(), nullable=False),
        sa.Column("borrowed_at", types.UtcTime(), nullable=True),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["volume_id"], ["volumes.id"], name=op.f("fk_snapshots_volume_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_snapshots")),
    )
    with op.batch_alter_table("snapshots", schema=None) as batch_op:
        batch_op.create_index("snapshots_borrowed", ["borrowed_at"], unique=False)
        batch_op.create_index(
            "snapshots_of_project", ["project_id", "created_at", "id"], unique=False
        )
        batch_op.create_index(
            "snapshots_of_volume", ["volume_id", "created_at", "id"], unique=False
        )

    with op.batch_alter_table("volumes", schema=None) as batch_op:
        batch_op.add_column(sa.Column("snapshot_id", sa.String(), nullable=True))
