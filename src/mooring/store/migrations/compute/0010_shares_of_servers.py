"""Shares of servers."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "compute_0010"
down_revision = "compute_0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "share_mappings",
        sa.Column("position", types.INTEGER, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("server_id", sa.String(), nullable=False),
        sa.Column("share_id", sa.String(), nullable=False),
        sa.Column("tag", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("export_location", sa.String(), nullable=False),
        sa.Column("protocol", sa.String(), nullable=False),
        sa.Column("access_to", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=False),
        sa.CheckConstraint(
            "protocol IN ('NFS', 'CEPHFS')", name=op.f("ck_share_mappings_known_protocol")
        ),
        sa.CheckConstraint(
            "status IN ('attaching', 'inactive', 'active', 'detaching', 'error')",
            name=op.f("ck_share_mappings_known_status"),
        ),
        sa.ForeignKeyConstraint(
            ["server_id"], ["servers.id"], name=op.f("fk_share_mappings_server_id")
        ),
        sa.PrimaryKeyConstraint("position", name=op.f("pk_share_mappings")),
        sa.UniqueConstraint("id", name=op.f("uq_share_mappings_id")),
        sa.UniqueConstraint("server_id", "share_id", name="one_mapping_for_each_share"),
        sa.UniqueConstraint("server_id", "tag", name="one_mapping_for_each_tag"),
    )
    op.create_index("share_mappings_of_share", "share_mappings", ["share_id"], unique=False)
    op.create_table(
        "share_places",
        sa.Column("mapping_id", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("access_to", sa.String(), nullable=False),
        sa.Column("rule_id", sa.String(), nullable=True),
        sa.Column("tries", types.INTEGER, nullable=False),
        sa.Column("path", sa.String(), nullable=True),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=False),
        sa.CheckConstraint(
            "state IN ('granting', 'granted', 'mounted', 'revoking')",
            name=op.f("ck_share_places_known_state"),
        ),
        sa.ForeignKeyConstraint(
            ["mapping_id"],
            ["share_mappings.id"],
            name=op.f("fk_share_places_mapping_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("mapping_id", "host", name=op.f("pk_share_places")),
    )
