"""Let a host be about to let go of a share whose rule other servers may rely on."""

from __future__ import annotations

from alembic import op

revision = "compute_0020"
down_revision = "compute_0019"
branch_labels = None
depends_on = None

_NAME = "ck_share_places_known_state"
_STATES = "state IN ('granting', 'granted', 'mounted', 'leaving', 'revoking')"


def upgrade() -> None:
    """Upgrade the tables."""
    with op.batch_alter_table("share_places", schema=None) as batch_op:
        batch_op.drop_constraint(op.f(_NAME), type_="check")
        batch_op.create_check_constraint(op.f(_NAME), _STATES)
