"""Indices that usage of quotas and pools is summed up from."""

from __future__ import annotations

from alembic import op

revision = "volume_0004"
down_revision = "volume_0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.drop_index("volumes_of_backend", "volumes")
    op.create_index("volumes_of_backend", "volumes", ["backend", "size_gib"])
    op.create_index("volumes_used", "volumes", ["project_id", "volume_type_id", "size_gib"])
    op.create_index("snapshots_used", "snapshots", ["project_id", "volume_id", "size_gib"])
