"""What sagas carry: refused undos, generations of absorbed ones, whether they have begun."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "common_0003"
down_revision = "common_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.add_column("saga_sagas", sa.Column("undo_error", types.Json(), nullable=True))
    op.add_column("saga_sagas", sa.Column("generations", types.Json(), nullable=True))
    begun = sa.Column("begun", sa.Boolean(), server_default=sa.false(), nullable=False)
    op.add_column("saga_sagas", begun)
    # What still waits for its locks has not begun.
    op.execute("UPDATE saga_sagas SET begun = true WHERE state <> 'locked'")
