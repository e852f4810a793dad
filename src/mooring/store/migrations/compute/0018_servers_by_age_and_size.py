"""Find deleted servers by their age, and sum up the others from an index alone."""

from __future__ import annotations

from alembic import op

revision = "compute_0018"
down_revision = "compute_0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_index("servers_deleted", "servers", ["deleted_at"])
    counted = ["user_id", "vcpus", "held_vcpus", "memory_mib", "held_memory_mib"]
    op.create_index("servers_used", "servers", ["project_id", "deleted_at", *counted])
