"""Who reserved a volume, and so may see how it is reached."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "volume_0009"
down_revision = "volume_0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.add_column(
        "attachments", sa.Column("user_id", sa.String(), server_default="", nullable=False)
    )
