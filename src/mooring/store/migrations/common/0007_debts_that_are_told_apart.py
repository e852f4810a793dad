"""Give the number of a debt that was paid to no other one."""

from __future__ import annotations

from mooring.store.numbers import number_anew

revision = "common_0007"
down_revision = "common_0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    number_anew("fence_debts")
