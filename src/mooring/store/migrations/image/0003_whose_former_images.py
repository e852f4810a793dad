"""Whose former images were, and since when they are."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "image_0003"
down_revision = "image_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    owner = sa.Column("owner", sa.String(), server_default=sa.text("''"), nullable=False)
    op.add_column("former_images", owner)
    op.add_column("former_images", sa.Column("deleted_at", types.UtcTime(), nullable=True))
    op.create_index("ix_former_images_owner", "former_images", ["owner", "deleted_at"])
