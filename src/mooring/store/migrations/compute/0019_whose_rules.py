"""Remember of the rule that lets a host in to a share whether this service has made it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "compute_0019"
down_revision = "compute_0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.add_column("share_places", sa.Column("rule_is_ours", sa.Boolean(), nullable=True))
