"""Initial."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "identity_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "domains",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_domains")),
        sa.UniqueConstraint("name", name=op.f("uq_domains_name")),
    )
    op.create_table(
        "regions",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("parent_region_id", sa.String(), nullable=True),
        sa.Column("extra", types.Json(), nullable=False),
        sa.ForeignKeyConstraint(
            ["parent_region_id"], ["regions.id"], name=op.f("fk_regions_parent_region_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_regions")),
    )
    op.create_table(
        "revocations",
        sa.Column("audit_id", sa.String(), nullable=False),
        sa.Column("forget_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("audit_id", name=op.f("pk_revocations")),
    )
    op.create_index("ix_revocations_forget_at", "revocations", ["forget_at"], unique=False)
    op.create_table(
        "roles",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("immutable", sa.Boolean(), nullable=False),
        sa.Column("extra", types.Json(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_roles")),
        sa.UniqueConstraint("name", name=op.f("uq_roles_name")),
    )
    op.create_table(
        "services",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("type", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=True),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("extra", types.Json(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_services")),
    )
    op.create_table(
        "endpoints",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("service_id", sa.String(), nullable=False),
        sa.Column("region_id", sa.String(), nullable=True),
        sa.Column("interface", sa.String(), nullable=False),
        sa.Column("url", sa.String(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("ours", sa.Boolean(), nullable=False),
        sa.Column("extra", types.Json(), nullable=False),
        sa.CheckConstraint(
            "interface IN ('public', 'internal', 'admin')", name=op.f("ck_endpoints_interface")
        ),
        sa.ForeignKeyConstraint(["region_id"], ["regions.id"], name=op.f("fk_endpoints_region_id")),
        sa.ForeignKeyConstraint(
            ["service_id"], ["services.id"], name=op.f("fk_endpoints_service_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_endpoints")),
    )
    op.create_index("ix_endpoints_region_id", "endpoints", ["region_id"], unique=False)
    op.create_index("ix_endpoints_service_id", "endpoints", ["service_id"], unique=False)
    op.create_table(
        "implications",
        sa.Column("prior_role_id", sa.String(), nullable=False),
        sa.Column("implied_role_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["implied_role_id"], ["roles.id"], name=op.f("fk_implications_implied_role_id")
        ),
        sa.ForeignKeyConstraint(
            ["prior_role_id"], ["roles.id"], name=op.f("fk_implications_prior_role_id")
        ),
        sa.PrimaryKeyConstraint("prior_role_id", "implied_role_id", name=op.f("pk_implications")),
    )
    op.create_table(
        "projects",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("domain_id", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("tags", types.Json(), nullable=False),
        sa.Column("extra", types.Json(), nullable=False),
        sa.ForeignKeyConstraint(["domain_id"], ["domains.id"], name=op.f("fk_projects_domain_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
        sa.UniqueConstraint("domain_id", "name", name=op.f("uq_projects_domain_id_name")),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("domain_id", sa.String(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("default_project_id", sa.String(), nullable=True),
        sa.Column("password_hash", sa.String(), nullable=True),
        sa.Column("tokens_from", types.UtcTime(), nullable=False),
        sa.Column("extra", types.Json(), nullable=False),
        sa.ForeignKeyConstraint(["domain_id"], ["domains.id"], name=op.f("fk_users_domain_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("domain_id", "name", name=op.f("uq_users_domain_id_name")),
    )
    op.create_table(
        "application_credentials",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=True),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("role_ids", types.Json(), nullable=False),
        sa.Column("secret_hash", sa.String(), nullable=False),
        sa.Column("expires_at", types.UtcTime(), nullable=True),
        sa.Column("unrestricted", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_application_credentials_user_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_application_credentials")),
        sa.UniqueConstraint(
            "user_id", "name", name=op.f("uq_application_credentials_user_id_name")
        ),
    )
    op.create_index(
        "ix_application_credentials_project_id",
        "application_credentials",
        ["project_id"],
        unique=False,
    )
    op.create_table(
        "grants",
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("role_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(["role_id"], ["roles.id"], name=op.f("fk_grants_role_id")),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_grants_user_id")),
        sa.PrimaryKeyConstraint("user_id", "scope", "role_id", name=op.f("pk_grants")),
    )
    op.create_index("ix_grants_role_id", "grants", ["role_id"], unique=False)
    op.create_index("ix_grants_scope", "grants", ["scope"], unique=False)
