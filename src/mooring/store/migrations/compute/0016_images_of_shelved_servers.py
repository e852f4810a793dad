"""Remember which image has the root disk of a server that was put away, and since when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "compute_0016"
down_revision = "compute_0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.add_column(
        "servers", sa.Column("shelved_image_id", sa.String(), nullable=False, server_default="")
    )
    op.add_column("servers", sa.Column("shelved_at", types.UtcTime(), nullable=True))
