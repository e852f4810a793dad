"""Tokens by which consoles of servers are opened."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "compute_0022"
down_revision = "compute_0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "console_tokens",
        sa.Column("digest", sa.String(), nullable=False),
        sa.Column("server_id", sa.String(), nullable=False),
        sa.Column("host", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("expires_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_console_tokens")),
    )
    op.create_index("console_tokens_of_server", "console_tokens", ["server_id"], unique=False)
    op.create_index(
        op.f("ix_console_tokens_expires_at"), "console_tokens", ["expires_at"], unique=False
    )
