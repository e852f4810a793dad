"""Remember when somebody said of a host that it is up again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "compute_0015"
down_revision = "compute_0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.add_column("hosts", sa.Column("lifted_at", types.UtcTime(), nullable=True))
