"""Remember moves between hosts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "compute_0005"
down_revision = "compute_0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "migrations",
        sa.Column("id", types.INTEGER, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(), nullable=False),
        sa.Column("server_id", sa.String(), nullable=False),
        sa.Column("saga_id", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("asked", sa.String(), nullable=False),
        sa.Column("source", sa.String(), nullable=False),
        sa.Column("destination", sa.String(), nullable=True),
        sa.Column("old_flavor_id", sa.String(), nullable=False),
        sa.Column("new_flavor_id", sa.String(), nullable=False),
        sa.Column("memory_total_bytes", types.INTEGER, nullable=False),
        sa.Column("memory_processed_bytes", types.INTEGER, nullable=False),
        sa.Column("memory_remaining_bytes", types.INTEGER, nullable=False),
        sa.Column("disk_total_bytes", types.INTEGER, nullable=False),
        sa.Column("disk_processed_bytes", types.INTEGER, nullable=False),
        sa.Column("disk_remaining_bytes", types.INTEGER, nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_migrations")),
        sa.UniqueConstraint("uuid", name=op.f("uq_migrations_uuid")),
    )
    op.create_index("migrations_by_time", "migrations", ["created_at", "id"], unique=False)
    op.create_index("migrations_of_server", "migrations", ["server_id"], unique=False)
