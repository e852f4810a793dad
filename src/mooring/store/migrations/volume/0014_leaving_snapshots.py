"""Which snapshots are to go by themselves, and since when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "volume_0014"
down_revision = "volume_0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    with op.batch_alter_table("snapshots", schema=None) as batch_op:
        batch_op.add_column(sa.Column("leaves_since", types.UtcTime(), nullable=True))
        batch_op.create_index("snapshots_leaving", ["leaves_since"], unique=False)
