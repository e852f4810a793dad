"""Where hosts mount shares, and whom access rules let in for them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "compute_0011"
down_revision = "compute_0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    bases = sa.Column("mount_bases", types.Json(), nullable=False, server_default="{}")
    op.add_column("hosts", bases)
    address = sa.Column("share_address", sa.String(), nullable=False, server_default="")
    op.add_column("hosts", address)
