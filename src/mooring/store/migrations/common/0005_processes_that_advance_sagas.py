"""Processes that advance sagas."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "common_0005"
down_revision = "common_0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "saga_engines",
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("beat_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("owner", name=op.f("pk_saga_engines")),
    )
