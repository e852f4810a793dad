"""What metadata a volume had when it was backed up."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "volume_0013"
down_revision = "volume_0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    with op.batch_alter_table("backups", schema=None) as batch_op:
        batch_op.add_column(sa.Column("volume_labels", types.Json(), nullable=True))
