"""Initial."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from mooring.store import types

revision = "placement_0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Upgrade the tables."""
    op.create_table(
        "consumers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("project_id", sa.String(), nullable=False),
        sa.Column("user_id", sa.String(), nullable=False),
        sa.Column("consumer_type", sa.String(), nullable=True),
        sa.Column("generation", types.INTEGER, nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_consumers")),
    )
    op.create_index("ix_consumers_project_id", "consumers", ["project_id", "user_id"], unique=False)
    op.create_table(
        "providers",
        sa.Column("id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("generation", types.INTEGER, nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.Column("updated_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_providers")),
        sa.UniqueConstraint("name", name=op.f("uq_providers_name")),
    )
    op.create_table(
        "resource_classes",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_resource_classes")),
    )
    op.create_table(
        "traits",
        sa.Column("name", sa.String(), nullable=False),
        sa.Column("created_at", types.UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_traits")),
    )
    op.create_table(
        "inventories",
        sa.Column("provider_id", sa.String(), nullable=False),
        sa.Column("resource_class", sa.String(), nullable=False),
        sa.Column("total", types.INTEGER, nullable=False),
        sa.Column("reserved", types.INTEGER, nullable=False),
        sa.Column("min_unit", types.INTEGER, nullable=False),
        sa.Column("max_unit", types.INTEGER, nullable=False),
        sa.Column("step_size", types.INTEGER, nullable=False),
        sa.Column("allocation_ratio", sa.Double(), nullable=False),
        sa.CheckConstraint("allocation_ratio >= 0", name=op.f("ck_inventories_ratio")),
        sa.CheckConstraint(
            "min_unit >= 1 AND max_unit >= 1 AND step_size >= 1", name=op.f("ck_inventories_units")
        ),
        sa.CheckConstraint(
            "total >= 1 AND reserved >= 0 AND reserved <= total",
            name=op.f("ck_inventories_amounts"),
        ),
        sa.ForeignKeyConstraint(
            ["provider_id"], ["providers.id"], name=op.f("fk_inventories_provider_id")
        ),
        sa.PrimaryKeyConstraint("provider_id", "resource_class", name=op.f("pk_inventories")),
    )
    op.create_table(
        "provider_aggregates",
        sa.Column("provider_id", sa.String(), nullable=False),
        sa.Column("aggregate_id", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["provider_id"], ["providers.id"], name=op.f("fk_provider_aggregates_provider_id")
        ),
        sa.PrimaryKeyConstraint("provider_id", "aggregate_id", name=op.f("pk_provider_aggregates")),
    )
    op.create_index(
        "ix_provider_aggregates_aggregate_id", "provider_aggregates", ["aggregate_id"], unique=False
    )
    op.create_table(
        "provider_traits",
        sa.Column("provider_id", sa.String(), nullable=False),
        sa.Column("name", sa.String(), nullable=False),
        sa.ForeignKeyConstraint(
            ["provider_id"], ["providers.id"], name=op.f("fk_provider_traits_provider_id")
        ),
        sa.PrimaryKeyConstraint("provider_id", "name", name=op.f("pk_provider_traits")),
    )
    op.create_index("ix_provider_traits_name", "provider_traits", ["name"], unique=False)
    op.create_table(
        "allocations",
        sa.Column("consumer_id", sa.String(), nullable=False),
        sa.Column("provider_id", sa.String(), nullable=False),
        sa.Column("resource_class", sa.String(), nullable=False),
        sa.Column("amount", types.INTEGER, nullable=False),
        sa.CheckConstraint("amount >= 1", name=op.f("ck_allocations_amount")),
        sa.ForeignKeyConstraint(
            ["consumer_id"], ["consumers.id"], name=op.f("fk_allocations_consumer_id")
        ),
        sa.ForeignKeyConstraint(
            ["provider_id", "resource_class"],
            ["inventories.provider_id", "inventories.resource_class"],
            name=op.f("fk_allocations_provider_id_resource_class"),
        ),
        sa.PrimaryKeyConstraint(
            "consumer_id", "provider_id", "resource_class", name=op.f("pk_allocations")
        ),
    )
    op.create_index(
        "ix_allocations_inventory", "allocations", ["provider_id", "resource_class"], unique=False
    )
