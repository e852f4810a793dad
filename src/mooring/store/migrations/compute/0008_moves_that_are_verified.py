"""Remember what a server that was resized goes back to."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "compute_0008"
down_revision = "compute_0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    nothing = {"nullable": False, "server_default": "0"}
    op.add_column("servers", sa.Column("held_vcpus", types.INTEGER, **nothing))
    op.add_column("servers", sa.Column("held_memory_mib", types.INTEGER, **nothing))
    op.add_column("migrations", sa.Column("old_size", types.Json(), nullable=True))
    text = {"nullable": False, "server_default": ""}
    op.add_column("migrations", sa.Column("old_vm_state", sa.String(), **text))
