"""Hosts that join."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "fleet_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "authorities",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("certificate", sa.String(), nullable=False),
        sa.Column("sealed_key", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_authorities")),
    )
    op.create_table(
        "hosts",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("roles", types.Json(), nullable=False),
        sa.Column("status", sa.String(), nullable=False),
        sa.Column("enrolment", sa.String(), nullable=False),
        sa.Column("token_digest", sa.String(), nullable=False),
        sa.Column("token_until", types.UtcTime(), nullable=False),
        sa.Column("key_digest", sa.String(), nullable=True),
        sa.Column("certificate", sa.String(), nullable=True),
        sa.Column("address", sa.String(), nullable=True),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("joined_at", types.UtcTime(), nullable=True),
        sa.CheckConstraint(
            "(status = 'invited') = (address IS NULL)", name=op.f("ck_hosts_address")
        ),
        sa.CheckConstraint(
            "(status = 'invited') = (certificate IS NULL)", name=op.f("ck_hosts_certificate")
        ),
        sa.CheckConstraint(
            "(status = 'invited') = (key_digest IS NULL)", name=op.f("ck_hosts_key")
        ),
        sa.CheckConstraint(
            "status IN ('invited', 'joined', 'leaving')", name=op.f("ck_hosts_status")
        ),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_hosts")),
        sa.UniqueConstraint("enrolment", name=op.f("uq_hosts_enrolment")),
        sa.UniqueConstraint("token_digest", name=op.f("uq_hosts_token_digest")),
    )
