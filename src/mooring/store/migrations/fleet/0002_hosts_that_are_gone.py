"""Remember of a host that leaves whether its machine never runs again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "fleet_0002"
down_revision = "fleet_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    gone = sa.Column("gone", sa.Boolean(), nullable=False, server_default=sa.false())
    op.add_column("hosts", gone)
