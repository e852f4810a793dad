"""Let hosts be fenced, and record why one is down."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "compute_0013"
down_revision = "compute_0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "host_fencings",
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("silent_s", types.INTEGER, nullable=False),
        sa.Column("failures", types.INTEGER, nullable=False),
        sa.Column("error", sa.String(), nullable=False),
        sa.Column("started_at", types.UtcTime(), nullable=False),
        sa.Column("ended_at", types.UtcTime(), nullable=True),
        sa.CheckConstraint(
            "status IN ('fencing', 'fenced', 'failed')", name=op.f("ck_host_fencings_known_fencing")
        ),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_host_fencings")),
    )
    with op.batch_alter_table("hosts", schema=None) as batch_op:
        batch_op.add_column(sa.Column("forced_down_at", types.UtcTime(), nullable=True))
        batch_op.add_column(sa.Column("forced_down_by", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("forced_down_why", sa.String(), nullable=True))
