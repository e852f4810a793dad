"""Count how often a user's tokens were ended, whatever the clock says."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "identity_0002"
down_revision = "identity_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.add_column(
        "users",
        sa.Column("token_generation", types.INTEGER, server_default="0", nullable=False),
    )
