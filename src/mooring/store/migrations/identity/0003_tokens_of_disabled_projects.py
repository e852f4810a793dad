"""Count how often a project's tokens were ended: one that is enabled again has none of before."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "identity_0003"
down_revision = "identity_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.add_column(
        "projects",
        sa.Column("token_generation", types.INTEGER, server_default="0", nullable=False),
    )
