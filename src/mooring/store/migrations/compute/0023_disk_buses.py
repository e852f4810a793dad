"""Remember what the disks of servers are connected by.

Until now every disk was on virtio, whatever its mapping asked for: so they stay.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "compute_0023"
down_revision = "compute_0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.execute("UPDATE block_devices SET disk_bus = NULL WHERE disk_bus IS NOT NULL")
    with op.batch_alter_table("servers", schema=None) as batch_op:
        for name, bus in (("root_bus", "virtio"), ("disk_bus", "virtio"), ("cdrom_bus", "scsi")):
            batch_op.add_column(sa.Column(name, sa.String(), server_default=bus, nullable=False))
