"""A disk in several places: the attachment of a block device becomes that of its place."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "compute_0002"
down_revision = "compute_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables, and give each volume the place at which its server is."""
    op.create_table(
        "disk_places",
        sa.Column("block_device_id", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("attachment_id", sa.String(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=False),
        sa.CheckConstraint(
            "state IN ('reserved', 'attached')", name=op.f("ck_disk_places_known_place")
        ),
        sa.ForeignKeyConstraint(
            ["block_device_id"],
            ["block_devices.id"],
            name=op.f("fk_disk_places_block_device_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("block_device_id", "host", name=op.f("pk_disk_places")),
    )
    op.execute(
        "INSERT INTO disk_places"
        " (block_device_id, host, attachment_id, state, created_at, updated_at)"
        " SELECT block_devices.id, COALESCE(servers.host, ''), block_devices.attachment_id,"
        " CASE WHEN block_devices.state = 'reserving' THEN 'reserved' ELSE 'attached' END,"
        " block_devices.created_at, block_devices.updated_at"
        " FROM block_devices JOIN servers ON servers.id = block_devices.server_id"
        " WHERE block_devices.attachment_id IS NOT NULL"
        " OR (block_devices.volume_id IS NOT NULL AND block_devices.state <> 'reserving')"
    )
    op.drop_column("block_devices", "attachment_id")
