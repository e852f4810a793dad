"""Resource locks."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "share_0002"
down_revision = "share_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "resource_locks",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("lock_context", sa.String(), nullable=False),
        sa.Column("resource_type", sa.String(), nullable=False),
        sa.Column("resource_id", sa.String(), nullable=False),
        sa.Column("resource_action", sa.String(), nullable=False),
        sa.Column("lock_reason", sa.String(), nullable=True),
        sa.Column("companion_of", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_resource_locks")),
    )
    op.create_index("resource_locks_by_companion", "resource_locks", ["companion_of"], unique=False)
    op.create_index(
        "resource_locks_of_project",
        "resource_locks",
        ["project_id", "created_at", "id"],
        unique=False,
    )
    op.create_index(
        "resource_locks_of_resource",
        "resource_locks",
        ["resource_id", "resource_action"],
        unique=False,
    )
