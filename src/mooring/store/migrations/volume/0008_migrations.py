"""The copies of volumes that go to another pool."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "volume_0008"
down_revision = "volume_0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    with op.batch_alter_table("volumes", schema=None) as batch_op:
        batch_op.add_column(sa.Column("copy_id", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("moves_from", sa.String(), nullable=True))
        batch_op.add_column(sa.Column("moves_to", sa.String(), nullable=True))
        batch_op.create_index("volumes_moving", ["moves_to", "size_gib"], unique=False)
