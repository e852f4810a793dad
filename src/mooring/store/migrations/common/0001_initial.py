"""Initial."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "common_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "saga_counters",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", types.INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_saga_counters")),
    )
    op.create_table(
        "saga_history",
        sa.Column("id", types.INTEGER, autoincrement=True, nullable=False),
        sa.Column("saga_id", sa.String(length=36), nullable=False),
        sa.Column("step", sa.String(length=64), nullable=False),
        sa.Column("item", sa.String(length=64), nullable=False),
        sa.Column("heading", sa.String(length=8), nullable=False),
        sa.Column("attempt", types.INTEGER, nullable=False),
        sa.Column("result", sa.String(length=8), nullable=False),
        sa.Column("error", types.Json(), nullable=True),
        sa.Column("epoch", types.INTEGER, nullable=False),
        sa.Column("started_at", types.UtcTime(), nullable=False),
        sa.Column("duration_ms", types.INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saga_history")),
    )
    op.create_index("ix_saga_history_saga_id", "saga_history", ["saga_id", "id"], unique=False)
    op.create_table(
        "saga_locks",
        sa.Column("saga_id", sa.String(length=36), nullable=False),
        sa.Column("key", sa.String(length=128), nullable=False),
        sa.Column("shared", sa.Boolean(), nullable=False),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.Column("generation", types.INTEGER, nullable=False),
        sa.Column("seq", types.INTEGER, nullable=False),
        sa.PrimaryKeyConstraint("saga_id", "key", name=op.f("pk_saga_locks")),
    )
    op.create_index("ix_saga_locks_key", "saga_locks", ["key"], unique=False)
    op.create_table(
        "saga_sagas",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("version", types.INTEGER, nullable=False),
        sa.Column("state", sa.String(length=8), nullable=False),
        sa.Column("heading", sa.String(length=8), nullable=False),
        sa.Column("outcome", sa.String(length=8), nullable=False),
        sa.Column("step", sa.String(length=64), nullable=False),
        sa.Column("item", sa.String(length=64), nullable=False),
        sa.Column("notes", types.Json(), nullable=False),
        sa.Column("error", types.Json(), nullable=True),
        sa.Column("epoch", types.INTEGER, nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("lease_until", types.UtcTime(), nullable=False),
        sa.Column("wake_at", types.UtcTime(), nullable=True),
        sa.Column("waits_for", sa.String(length=200), nullable=False),
        sa.Column("parked_since", types.UtcTime(), nullable=True),
        sa.Column("attempts", types.INTEGER, nullable=False),
        sa.Column("spent_s", sa.Double(), nullable=False),
        sa.Column("stuck", sa.Boolean(), nullable=False),
        sa.Column("abort", types.INTEGER, nullable=False),
        sa.Column("answered", sa.Boolean(), nullable=False),
        sa.Column("visible", sa.Boolean(), nullable=False),
        sa.Column("progress", types.INTEGER, nullable=False),
        sa.Column("sealed_who", sa.LargeBinary(), nullable=True),
        sa.Column("project_id", sa.String(length=64), nullable=False),
        sa.Column("request_id", sa.String(length=64), nullable=False),
        sa.Column("parent_id", sa.String(length=36), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=False),
        sa.Column("ended_at", types.UtcTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saga_sagas")),
    )
    op.create_index("ix_saga_sagas_ended_at", "saga_sagas", ["ended_at"], unique=False)
    op.create_index("ix_saga_sagas_parent_id", "saga_sagas", ["parent_id"], unique=False)
    op.create_index("ix_saga_sagas_state", "saga_sagas", ["state", "lease_until"], unique=False)
    op.create_index("ix_saga_sagas_waits_for", "saga_sagas", ["waits_for"], unique=False)
    op.create_table(
        "saga_signals",
        sa.Column("id", types.INTEGER, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("payload", types.Json(), nullable=True),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_saga_signals")),
    )
    op.create_index("ix_saga_signals_name", "saga_signals", ["name"], unique=False)
    op.create_table(
        "fence_answers",
        sa.Column("key", sa.String(length=193), nullable=False),
        sa.Column("resource", sa.String(length=255), nullable=False),
        sa.Column("verb", sa.String(length=8), nullable=False),
        sa.Column("answer", types.Json(), nullable=False),
        sa.Column("made", types.Json(), nullable=False),
        sa.Column("at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("key", "resource", "verb", name=op.f("pk_fence_answers")),
    )
    op.create_index("ix_fence_answers_at", "fence_answers", ["at"], unique=False)
    op.create_table(
        "fence_debts",
        sa.Column("id", types.INTEGER, autoincrement=True, nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("verb", sa.String(length=8), nullable=False),
        sa.Column("resource", sa.String(length=255), nullable=False),
        sa.Column("operation", sa.String(length=255), nullable=False),
        sa.Column("generation", types.INTEGER, nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_fence_debts")),
        sa.UniqueConstraint(
            "host", "verb", "resource", name=op.f("uq_fence_debts_host_verb_resource")
        ),
    )
    op.create_index("ix_fence_debts_host", "fence_debts", ["host", "id"], unique=False)
    op.create_table(
        "fence_epochs",
        sa.Column("saga", sa.String(length=64), nullable=False),
        sa.Column("mark", types.INTEGER, nullable=False),
        sa.Column("at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("saga", name=op.f("pk_fence_epochs")),
    )
    op.create_index("ix_fence_epochs_at", "fence_epochs", ["at"], unique=False)
    op.create_table(
        "fence_generations",
        sa.Column("resource", sa.String(length=255), nullable=False),
        sa.Column("mark", types.INTEGER, nullable=False),
        sa.Column("at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("resource", name=op.f("pk_fence_generations")),
    )
    op.create_index("ix_fence_generations_at", "fence_generations", ["at"], unique=False)
    op.create_table(
        "fence_tombstones",
        sa.Column("key", sa.String(length=193), nullable=False),
        sa.Column("resource", sa.String(length=255), nullable=False),
        sa.Column("at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("key", "resource", name=op.f("pk_fence_tombstones")),
    )
    op.create_index("ix_fence_tombstones_at", "fence_tombstones", ["at"], unique=False)
