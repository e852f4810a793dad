"""Tell hosts whose servers are evacuated from those that are drained."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "compute_0014"
down_revision = "compute_0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    evacuates = sa.Column("evacuates", sa.Boolean(), nullable=False, server_default=sa.false())
    op.add_column("host_drains", evacuates)
