"""Where the data of backups lie that were imported under another id."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "volume_0017"
down_revision = "volume_0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.add_column("backups", sa.Column("stored_as", sa.String(), nullable=True))
    op.create_index("backups_stored", "backups", ["stored_as"])
