"""Unified limits: registered ones, and those of projects and domains."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "identity_0005"
down_revision = "identity_0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "registered_limits",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("service_id", sa.String(), nullable=False),
        sa.Column("region_id", sa.String(), nullable=True),
        sa.Column("resource_name", sa.String(), nullable=False),
        sa.Column("default_limit", types.INTEGER, nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.CheckConstraint("default_limit >= -1", name=op.f("ck_registered_limits_default_limit")),
        sa.ForeignKeyConstraint(
            ["region_id"], ["regions.id"], name=op.f("fk_registered_limits_region_id")
        ),
        sa.ForeignKeyConstraint(
            ["service_id"], ["services.id"], name=op.f("fk_registered_limits_service_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_registered_limits")),
        sa.UniqueConstraint(
            "service_id",
            "region_id",
            "resource_name",
            name=op.f("uq_registered_limits_service_id_region_id_resource_name"),
        ),
    )
    op.create_index(
        "ix_registered_limits_region_id", "registered_limits", ["region_id"], unique=False
    )
    op.create_index(
        "one_registered_limit_without_region",
        "registered_limits",
        ["service_id", "resource_name"],
        unique=True,
        sqlite_where=sa.text("region_id IS NULL"),
        postgresql_where=sa.text("region_id IS NULL"),
    )
    op.create_table(
        "limits",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("registered_limit_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=True),
        sa.Column("domain_id", sa.String(), nullable=True),
        sa.Column("resource_limit", types.INTEGER, nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.CheckConstraint(
            "(project_id IS NULL) <> (domain_id IS NULL)", name=op.f("ck_limits_owner")
        ),
        sa.CheckConstraint("resource_limit >= -1", name=op.f("ck_limits_resource_limit")),
        sa.ForeignKeyConstraint(["domain_id"], ["domains.id"], name=op.f("fk_limits_domain_id")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_limits_project_id")),
        sa.ForeignKeyConstraint(
            ["registered_limit_id"],
            ["registered_limits.id"],
            name=op.f("fk_limits_registered_limit_id"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_limits")),
        sa.UniqueConstraint(
            "registered_limit_id", "domain_id", name=op.f("uq_limits_registered_limit_id_domain_id")
        ),
        sa.UniqueConstraint(
            "registered_limit_id",
            "project_id",
            name=op.f("uq_limits_registered_limit_id_project_id"),
        ),
    )
    op.create_index("ix_limits_domain_id", "limits", ["domain_id"], unique=False)
    op.create_index("ix_limits_project_id", "limits", ["project_id"], unique=False)
