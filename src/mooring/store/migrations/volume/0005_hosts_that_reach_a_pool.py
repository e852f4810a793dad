"""Hosts that reach a pool."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "volume_0005"
down_revision = "volume_0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.add_column("backends", sa.Column("hosts", types.Json(), nullable=True))
