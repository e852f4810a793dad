"""Remember where a host is and which hypervisor it has, as its agent says."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "compute_0017"
down_revision = "compute_0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.add_column("hosts", sa.Column("ip", sa.String(), nullable=False, server_default=""))
    op.add_column(
        "hosts",
        sa.Column("hypervisor_version", types.INTEGER, nullable=False, server_default="0"),
    )
