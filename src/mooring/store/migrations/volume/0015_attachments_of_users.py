"""Remember of an attachment whether a service has made it, or its user."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "volume_0015"
down_revision = "volume_0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.add_column("attachments", sa.Column("by_service", sa.Boolean(), nullable=True))
