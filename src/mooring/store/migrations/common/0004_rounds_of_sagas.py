"""Rounds: how often a saga has turned forward once more."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "common_0004"
down_revision = "common_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    column = sa.Column("round", types.INTEGER, server_default=sa.text("1"), nullable=False)
    op.add_column("saga_sagas", column)
