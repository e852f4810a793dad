"""Ids of images and former images in any letters, found by an index."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "image_0004"
down_revision = "image_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_index("ix_images_small_id", "images", [sa.text("lower(id)")])
    op.create_index("ix_former_images_small_id", "former_images", [sa.text("lower(id)")])
