"""Tell the moves that drains make from those of users."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "compute_0009"
down_revision = "compute_0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    by_drain = sa.Column("by_drain", sa.Boolean(), nullable=False, server_default=sa.false())
    op.add_column("migrations", by_drain)
    op.create_index("migrations_by_status", "migrations", ["status"])
