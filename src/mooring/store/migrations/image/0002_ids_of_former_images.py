"""Ids of former images."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "image_0002"
down_revision = "image_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "former_images",
        sa.Column("id", sa.String(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_former_images")),
    )
