"""Notifications."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "common_0002"
down_revision = "common_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "notify_deliverers",
        sa.Column("target", sa.String(length=32), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("lease_until", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("target", name=op.f("pk_notify_deliverers")),
    )
    op.create_table(
        "notify_outbox",
        sa.Column("id", types.INTEGER, autoincrement=True, nullable=False),
        sa.Column("target", sa.String(length=32), nullable=False),
        sa.Column("message_id", sa.String(length=36), nullable=False),
        sa.Column("event_type", sa.String(length=255), nullable=False),
        sa.Column("publisher", sa.String(length=255), nullable=False),
        sa.Column("priority", sa.String(length=8), nullable=False),
        sa.Column("payload", types.Json(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notify_outbox")),
    )
    op.create_index("ix_notify_outbox_created_at", "notify_outbox", ["created_at"], unique=False)
    op.create_index("ix_notify_outbox_target", "notify_outbox", ["target", "id"], unique=False)
