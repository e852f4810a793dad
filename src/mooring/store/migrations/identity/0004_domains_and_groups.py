"""Domains that are disabled, and groups of users with their roles."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "identity_0004"
down_revision = "identity_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.add_column(
        "domains",
        sa.Column("token_generation", types.INTEGER, server_default="0", nullable=False),
    )
    op.add_column("domains", sa.Column("extra", types.Json(), server_default="{}", nullable=False))
    op.create_table(
        "user_groups",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("domain_id", sa.String(), nullable=False),
        sa.Column("description", sa.String(), nullable=False),
        sa.Column("extra", types.Json(), nullable=False),
        sa.ForeignKeyConstraint(
            ["domain_id"], ["domains.id"], name=op.f("fk_user_groups_domain_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_user_groups")),
        sa.UniqueConstraint("domain_id", "name", name=op.f("uq_user_groups_domain_id_name")),
    )
    op.create_table(
        "group_members",
        sa.Column("group_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["user_groups.id"], name=op.f("fk_group_members_group_id")
        ),
        sa.ForeignKeyConstraint(["user_id"], ["users.id"], name=op.f("fk_group_members_user_id")),
        sa.PrimaryKeyConstraint("group_id", "user_id", name=op.f("pk_group_members")),
    )
    op.create_index("ix_group_members_user_id", "group_members", ["user_id"])
    op.create_table(
        "group_grants",
        sa.Column("group_id", sa.String(), nullable=False),
        sa.Column("scope", sa.String(), nullable=False),
        sa.Column("role_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group_id"], ["user_groups.id"], name=op.f("fk_group_grants_group_id")
        ),
        sa.ForeignKeyConstraint(["role_id"], ["roles.id"], name=op.f("fk_group_grants_role_id")),
        sa.PrimaryKeyConstraint("group_id", "scope", "role_id", name=op.f("pk_group_grants")),
    )
    op.create_index("ix_group_grants_role_id", "group_grants", ["role_id"])
    op.create_index("ix_group_grants_scope", "group_grants", ["scope"])
