"""Server groups."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "compute_0003"
down_revision = "compute_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "server_groups",
        sa.Column("position", types.INTEGER, autoincrement=True, nullable=False),
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("policy", sa.String(), nullable=False),
        sa.Column("max_server_per_host", types.INTEGER, nullable=True),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.CheckConstraint(
            "policy IN ('affinity', 'anti-affinity', 'soft-affinity', 'soft-anti-affinity')",
            name=op.f("ck_server_groups_known_policy"),
        ),
        sa.PrimaryKeyConstraint("position", name=op.f("pk_server_groups")),
        sa.UniqueConstraint("id", name=op.f("uq_server_groups_id")),
    )
    op.create_index("server_groups_of_project", "server_groups", ["project_id"], unique=False)
    op.create_table(
        "server_group_members",
        sa.Column("server_id", sa.String(), nullable=False),
        sa.Column("group_id", sa.String(), nullable=False),
        sa.Column("bound_for", sa.String(), nullable=True),
        sa.ForeignKeyConstraint(
            ["group_id"],
            ["server_groups.id"],
            name=op.f("fk_server_group_members_group_id"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["server_id"],
            ["servers.id"],
            name=op.f("fk_server_group_members_server_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("server_id", name=op.f("pk_server_group_members")),
    )
    op.create_index(
        "server_group_members_of_group", "server_group_members", ["group_id"], unique=False
    )
