"""Why debts are left."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "common_0006"
down_revision = "common_0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    column = sa.Column("error", sa.String(), server_default=sa.text("''"), nullable=False)
    op.add_column("fence_debts", column)
