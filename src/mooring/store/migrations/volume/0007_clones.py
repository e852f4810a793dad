"""Which volume a volume was made from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "volume_0007"
down_revision = "volume_0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    with op.batch_alter_table("volumes", schema=None) as batch_op:
        batch_op.add_column(sa.Column("source_volume_id", sa.String(), nullable=True))
