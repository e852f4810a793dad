"""Initial."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "volume_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "backends",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("driver", sa.String(), nullable=False),
        sa.Column("pool", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("service_id", sa.String(), nullable=False),
        sa.Column("total_gib", sa.Double(), nullable=False),
        sa.Column("free_gib", sa.Double(), nullable=False),
        sa.Column("protocol", sa.String(), nullable=False),
        sa.Column("thin", sa.Boolean(), nullable=False),
        sa.Column("multiattach", sa.Boolean(), nullable=False),
        sa.Column("problem", sa.String(), nullable=False),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("disabled_reason", sa.String(), nullable=True),
        sa.Column("seen_at", types.UtcTime(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_backends")),
    )
    op.create_table(
        "messages",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("event_id", sa.String(), nullable=False),
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
        sa.Column("resource", sa.String(), nullable=False),
        sa.Column("hard_limit", types.INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("project_id", "resource", name=op.f("pk_quotas")),
    )
    op.create_table(
        "volume_types",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("is_public", sa.Boolean(), nullable=False),
        sa.Column("extra_specs", types.Json(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volume_types")),
        sa.UniqueConstraint("name", name=op.f("uq_volume_types_name")),
    )
    op.create_table(
        "volume_type_access",
        sa.Column("volume_type_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["volume_type_id"],
            ["volume_types.id"],
            name=op.f("fk_volume_type_access_volume_type_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("volume_type_id", "project_id", name=op.f("pk_volume_type_access")),
    )
    op.create_table(
        "volumes",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("size_gib", types.INTEGER, nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("attach_status", sa.String(), nullable=False),
        sa.Column("migration_status", sa.String(), nullable=True),
        sa.Column("bootable", sa.Boolean(), nullable=False),
        sa.Column("multiattach", sa.Boolean(), nullable=False),
        sa.Column("readonly", sa.Boolean(), nullable=True),
        sa.Column("attached_mode", sa.String(), nullable=True),
        sa.Column("volume_type_id", sa.String(), nullable=False),
        sa.Column("zone", sa.String(), nullable=False),
        sa.Column("backend", sa.String(), nullable=True),
        sa.Column("metadata", types.Json(), nullable=False),
        sa.Column("image_metadata", types.Json(), nullable=False),
        sa.Column("borrowed_by", sa.String(), nullable=False),
        sa.Column("borrowed_for", sa.String(), nullable=False),
        sa.Column("borrowed_at", types.UtcTime(), nullable=True),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=True),
        sa.Column("launched_at", types.UtcTime(), nullable=True),
        sa.CheckConstraint("size_gib > 0", name=op.f("ck_volumes_volume_has_a_size")),
        sa.ForeignKeyConstraint(
            ["volume_type_id"], ["volume_types.id"], name=op.f("fk_volumes_volume_type_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_volumes")),
    )
    op.create_index("volumes_borrowed", "volumes", ["borrowed_at"], unique=False)
    op.create_index("volumes_of_backend", "volumes", ["backend"], unique=False)
    op.create_index(
        "volumes_of_project", "volumes", ["project_id", "created_at", "id"], unique=False
    )
    op.create_table(
        "attachments",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("volume_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("server_id", sa.String(), nullable=True),
        sa.Column("attach_status", sa.String(), nullable=False),
        sa.Column("attach_mode", sa.String(), nullable=True),
        sa.Column("connector", types.Json(), nullable=True),
        sa.Column("connection", sa.LargeBinary(), nullable=True),
        sa.Column("attached_host", sa.String(), nullable=True),
        sa.Column("mountpoint", sa.String(), nullable=True),
        sa.Column("saga_id", sa.String(), nullable=False),
        sa.Column("deleting", sa.Boolean(), nullable=False),
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("borrowed_by", sa.String(), nullable=False),
        sa.Column("borrowed_for", sa.String(), nullable=False),
        sa.Column("borrowed_at", types.UtcTime(), nullable=True),
        sa.Column("attached_at", types.UtcTime(), nullable=True),
        sa.Column("detached_at", types.UtcTime(), nullable=True),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["volume_id"], ["volumes.id"], name=op.f("fk_attachments_volume_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_attachments")),
    )
    op.create_index("attachments_borrowed", "attachments", ["borrowed_at"], unique=False)
    op.create_index(
        "attachments_of_project", "attachments", ["project_id", "created_at", "id"], unique=False
    )
    op.create_index("attachments_of_server", "attachments", ["server_id"], unique=False)
    op.create_index(
        "attachments_of_volume", "attachments", ["volume_id", "created_at", "id"], unique=False
    )
    op.create_table(
        "exports",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("volume_id", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("connector", types.Json(), nullable=False),
        sa.Column("connection", sa.LargeBinary(), nullable=True),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["volume_id"], ["volumes.id"], name=op.f("fk_exports_volume_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_exports")),
    )
