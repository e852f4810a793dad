"""What the placement service remembers.

Source: facts/identity_image_placement.md 9.2 and 9.12.
"""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, ForeignKeyConstraint, Index
from sqlalchemy.orm import Mapped, mapped_column

from mooring.store.base import UtcTime, service_base

Base = service_base("placement")

_PROVIDER = "providers.id"


class ProviderRow(Base):
    """One resource provider. `generation` grows with every change of what belongs to it."""

    __tablename__ = "providers"

    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    generation: Mapped[int] = mapped_column(default=0)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    updated_at: Mapped[datetime] = mapped_column(UtcTime)


class InventoryRow(Base):
    """How much of one class a provider has. Units are the class's own: MiB, GiB, pieces."""

    __tablename__ = "inventories"
    __table_args__ = (
        CheckConstraint("total >= 1 AND reserved >= 0 AND reserved <= total", name="amounts"),
        CheckConstraint("min_unit >= 1 AND max_unit >= 1 AND step_size >= 1", name="units"),
        CheckConstraint("allocation_ratio >= 0", name="ratio"),
    )

    provider_id: Mapped[str] = mapped_column(ForeignKey(_PROVIDER), primary_key=True)
    resource_class: Mapped[str] = mapped_column(primary_key=True)
    total: Mapped[int]
    reserved: Mapped[int]
    min_unit: Mapped[int]
    max_unit: Mapped[int]
    step_size: Mapped[int]
    allocation_ratio: Mapped[float]


class ProviderTraitRow(Base):
    """One thing that a provider can do."""

    __tablename__ = "provider_traits"
    __table_args__ = (Index("ix_provider_traits_name", "name"),)

    provider_id: Mapped[str] = mapped_column(ForeignKey(_PROVIDER), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)


class ProviderAggregateRow(Base):
    """One aggregate that a provider is in. An aggregate is an id and nothing else."""

    __tablename__ = "provider_aggregates"
    __table_args__ = (Index("ix_provider_aggregates_aggregate_id", "aggregate_id"),)

    provider_id: Mapped[str] = mapped_column(ForeignKey(_PROVIDER), primary_key=True)
    aggregate_id: Mapped[str] = mapped_column(primary_key=True)


class TraitRow(Base):
    """A trait that is not a standard one: its name begins with CUSTOM_."""

    __tablename__ = "traits"

    name: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class ResourceClassRow(Base):
    """A resource class that is not a standard one: its name begins with CUSTOM_."""

    __tablename__ = "resource_classes"

    name: Mapped[str] = mapped_column(primary_key=True)
    created_at: Mapped[datetime] = mapped_column(UtcTime)


class ConsumerRow(Base):
    """Somebody who holds resources: a server or a migration. Without allocations it has no row."""

    __tablename__ = "consumers"
    __table_args__ = (Index("ix_consumers_project_id", "project_id", "user_id"),)

    id: Mapped[str] = mapped_column(primary_key=True)
    project_id: Mapped[str]
    user_id: Mapped[str]
    consumer_type: Mapped[str | None]
    generation: Mapped[int]
    updated_at: Mapped[datetime] = mapped_column(UtcTime)


class AllocationRow(Base):
    """How much of one class of one provider a consumer holds.

    The inventory it comes out of cannot go while it stands: that is the foreign key's work.
    """

    __tablename__ = "allocations"
    __table_args__ = (
        ForeignKeyConstraint(
            ["provider_id", "resource_class"],
            ["inventories.provider_id", "inventories.resource_class"],
        ),
        CheckConstraint("amount >= 1", name="amount"),
        Index("ix_allocations_inventory", "provider_id", "resource_class"),
    )

    consumer_id: Mapped[str] = mapped_column(ForeignKey("consumers.id"), primary_key=True)
    provider_id: Mapped[str] = mapped_column(primary_key=True)
    resource_class: Mapped[str] = mapped_column(primary_key=True)
    amount: Mapped[int]
