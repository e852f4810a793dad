"""What snapshots have of an image: that of their volume when they were taken."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "volume_0016"
down_revision = "volume_0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    bootable = sa.Column("bootable", sa.Boolean(), server_default=sa.false(), nullable=False)
    op.add_column("snapshots", bootable)
    metadata = sa.Column("image_metadata", types.Json(), server_default="{}", nullable=False)
    op.add_column("snapshots", metadata)
    # What it was then is not known. Where the volume is another project's by now, what that one
    # says of it is not told.
    op.execute(
        "UPDATE snapshots SET"
        " bootable = (SELECT volumes.bootable FROM volumes WHERE volumes.id = snapshots.volume_id),"
        " image_metadata = COALESCE((SELECT volumes.image_metadata FROM volumes"
        " WHERE volumes.id = snapshots.volume_id"
        " AND volumes.project_id = snapshots.project_id), '{}')"
    )
