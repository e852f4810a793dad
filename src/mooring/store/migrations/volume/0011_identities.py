"""What the storage of each pool calls itself."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "volume_0011"
down_revision = "volume_0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.add_column("backends", sa.Column("identity", sa.String(), server_default="", nullable=False))
