"""Volumes that grow: what compute is to reach, and what is reserved meanwhile."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "volume_0002"
down_revision = "volume_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "reservations",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("volume_id", sa.String(), nullable=False),
        sa.Column("volume_type_id", sa.String(), nullable=False),
        sa.Column("delta_gib", types.INTEGER, nullable=False),
        sa.Column("saga_id", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.CheckConstraint("delta_gib > 0", name=op.f("ck_reservations_reservation_adds")),
        sa.ForeignKeyConstraint(
            ["volume_id"],
            ["volumes.id"],
            name=op.f("fk_reservations_volume_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["volume_type_id"],
            ["volume_types.id"],
            name=op.f("fk_reservations_volume_type_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reservations")),
    )
    op.create_index("reservations_of_project", "reservations", ["project_id"], unique=False)
    op.create_index("reservations_of_volume", "reservations", ["volume_id"], unique=False)
    op.add_column("volumes", sa.Column("extend_new_size", types.INTEGER, nullable=True))
    op.add_column("volumes", sa.Column("extend_reservations", types.Json(), nullable=True))
    op.add_column("volumes", sa.Column("extend_answer", sa.String(), nullable=True))
    op.add_column("volumes", sa.Column("extend_event", sa.String(), nullable=True))
