"""Let domains have tags."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "identity_0006"
down_revision = "identity_0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.add_column("domains", sa.Column("tags", types.Json(), server_default="[]", nullable=False))
