"""Shares rules and snapshots."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "share_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "messages",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("action_id", sa.String(), nullable=False),
        sa.Column("detail_id", sa.String(), nullable=False),
        sa.Column("text", sa.String(), nullable=False),
        sa.Column("level", sa.String(), nullable=False),
        sa.Column("request_id", sa.String(), nullable=False),
        sa.Column("resource_type", sa.String(), nullable=False),
        sa.Column("resource_id", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("expires_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_messages")),
    )
    op.create_index(
        "messages_of_project", "messages", ["project_id", "created_at", "id"], unique=False
    )
    op.create_table(
        "pools",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("driver", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("protocol", sa.String(), nullable=False),
        sa.Column("total_gib", sa.Double(), nullable=False),
        sa.Column("free_gib", sa.Double(), nullable=False),
        sa.Column("reserved_percent", types.INTEGER, nullable=False),
        sa.Column("thin", sa.Boolean(), nullable=False),
        sa.Column("oversubscription", sa.Double(), nullable=False),
        sa.Column("has_quota", sa.Boolean(), nullable=False),
        sa.Column("extends", sa.Boolean(), nullable=False),
        sa.Column("shrinks", sa.Boolean(), nullable=False),
        sa.Column("has_snapshots", sa.Boolean(), nullable=False),
        sa.Column("from_snapshot", sa.Boolean(), nullable=False),
        sa.Column("problem", sa.String(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("seen_at", types.UtcTime(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_pools")),
    )
    op.create_table(
        "quota_classes",
        sa.Column("class_name", sa.String(), nullable=False),
        sa.Column("resource", sa.String(), nullable=False),
        sa.Column("hard_limit", types.INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("class_name", "resource", name=op.f("pk_quota_classes")),
    )
    op.create_table(
        "quota_projects",
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("takings", types.INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_quota_projects")),
    )
    op.create_table(
        "quotas",
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("share_type_id", sa.String(), nullable=False),
        sa.Column("resource", sa.String(), nullable=False),
        sa.Column("hard_limit", types.INTEGER, nullable=False),
        sa.PrimaryKeyConstraint(
            "project_id", "user_id", "share_type_id", "resource", name=op.f("pk_quotas")
        ),
    )
    op.create_table(
        "share_types",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("extra_specs", types.Json(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_share_types")),
        sa.UniqueConstraint("name", name=op.f("uq_share_types_name")),
    )
    op.create_table(
        "share_type_access",
        sa.Column("share_type_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["share_type_id"],
            ["share_types.id"],
            name=op.f("fk_share_type_access_share_type_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("share_type_id", "project_id", name=op.f("pk_share_type_access")),
    )
    op.create_table(
        "shares",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("size_gib", types.INTEGER, nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("protocol", sa.String(), nullable=False),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("share_type_id", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=True),
        sa.Column("pool", sa.String(), nullable=True),
        sa.Column("snapshot_support", sa.Boolean(), nullable=False),
        sa.Column("from_snapshot_support", sa.Boolean(), nullable=False),
        sa.Column("metadata", types.Json(), nullable=False),
        sa.Column("snapshot_id", sa.String(), nullable=True),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=True),
        sa.Column("launched_at", types.UtcTime(), nullable=True),
        sa.CheckConstraint("size_gib > 0", name=op.f("ck_shares_share_has_a_size")),
        sa.ForeignKeyConstraint(
            ["share_type_id"], ["share_types.id"], name=op.f("fk_shares_share_type_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_shares")),
    )
    op.create_index("shares_of_pool", "shares", ["pool", "size_gib"], unique=False)
    op.create_index("shares_of_project", "shares", ["project_id", "created_at", "id"], unique=False)
    op.create_index(
        "shares_used",
        "shares",
        ["project_id", "user_id", "share_type_id", "size_gib"],
        unique=False,
    )
    op.create_table(
        "access_rules",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("share_id", sa.String(), nullable=False),
        sa.Column("access_type", sa.String(), nullable=False),
        sa.Column("access_to", sa.String(), nullable=False),
        sa.Column("client", sa.String(), nullable=False),
        sa.Column("access_level", sa.String(), nullable=False),
        sa.Column("state", sa.String(), nullable=False),
        sa.Column("access_key", sa.LargeBinary(), nullable=True),
        sa.Column("metadata", types.Json(), nullable=False),
        sa.Column("saga_id", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["share_id"], ["shares.id"], name=op.f("fk_access_rules_share_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_access_rules")),
    )
    op.create_index(
        "access_rules_by_client", "access_rules", ["share_id", "access_type", "client"], unique=True
    )
    op.create_table(
        "export_locations",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("share_id", sa.String(), nullable=False),
        sa.Column("path", sa.String(), nullable=False),
        sa.Column("preferred", sa.Boolean(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["share_id"],
            ["shares.id"],
            name=op.f("fk_export_locations_share_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_export_locations")),
    )
    op.create_index("export_locations_of_share", "export_locations", ["share_id"], unique=False)
    op.create_table(
        "reservations",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("share_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("share_type_id", sa.String(), nullable=False),
        sa.Column("delta_gib", types.INTEGER, nullable=False),
        sa.Column("saga_id", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.CheckConstraint("delta_gib > 0", name=op.f("ck_reservations_reservation_adds")),
        sa.ForeignKeyConstraint(
            ["share_id"], ["shares.id"], name=op.f("fk_reservations_share_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["share_type_id"], ["share_types.id"], name=op.f("fk_reservations_share_type_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reservations")),
    )
    op.create_index("reservations_of_project", "reservations", ["project_id"], unique=False)
    op.create_index("reservations_of_share", "reservations", ["share_id"], unique=False)
    op.create_table(
        "share_snapshots",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("share_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("size_gib", types.INTEGER, nullable=False),
        sa.Column("protocol", sa.String(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("metadata", types.Json(), nullable=False),
        sa.Column("saga_id", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["share_id"],
            ["shares.id"],
            name=op.f("fk_share_snapshots_share_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_share_snapshots")),
    )
    op.create_index(
        "share_snapshots_of_project",
        "share_snapshots",
        ["project_id", "created_at", "id"],
        unique=False,
    )
    op.create_index(
        "share_snapshots_of_share",
        "share_snapshots",
        ["share_id", "created_at", "id"],
        unique=False,
    )
    op.create_index(
        "share_snapshots_used",
        "share_snapshots",
        ["project_id", "user_id", "share_id", "size_gib"],
        unique=False,
    )
