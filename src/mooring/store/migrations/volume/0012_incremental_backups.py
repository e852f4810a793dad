"""Backups that build on others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "volume_0012"
down_revision = "volume_0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    with op.batch_alter_table("backups", schema=None) as batch_op:
        batch_op.add_column(sa.Column("parent_id", sa.String(), nullable=True))
        batch_op.create_index("backups_of_parent", ["parent_id"])
