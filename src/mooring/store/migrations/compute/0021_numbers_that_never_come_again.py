"""Give the number of a deleted aggregate, host, key pair, move or action to no other one."""

from __future__ import annotations

from mooring.store.numbers import number_anew

revision = "compute_0021"
down_revision = "compute_0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    number_anew("aggregates", "hosts", "instance_actions", "keypairs", "migrations")
