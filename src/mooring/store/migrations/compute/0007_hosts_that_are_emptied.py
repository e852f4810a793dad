"""Hosts that are being emptied."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "compute_0007"
down_revision = "compute_0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "host_drains",
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("refused", types.Json(), nullable=False),
        sa.Column("stayed", types.Json(), nullable=False),
        sa.Column("started_at", types.UtcTime(), nullable=False),
        sa.Column("ended_at", types.UtcTime(), nullable=True),
        sa.CheckConstraint(
            "status IN ('draining', 'drained', 'stopped')",
            name=op.f("ck_host_drains_known_drain"),
        ),
        sa.PrimaryKeyConstraint("host", name=op.f("pk_host_drains")),
    )
