"""Let an action have one event of a name for each host on which it was tried."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "compute_0012"
down_revision = "compute_0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    with op.batch_alter_table("instance_action_events", schema=None) as batch_op:
        batch_op.drop_constraint("one_event_of_each_name", type_="unique")
    is_open = sa.text("finished_at IS NULL")
    op.create_index(
        "one_open_event_of_each_name",
        "instance_action_events",
        ["action_id", "event"],
        unique=True,
        sqlite_where=is_open,
        postgresql_where=is_open,
    )
    op.create_index("events_of_action", "instance_action_events", ["action_id"])
