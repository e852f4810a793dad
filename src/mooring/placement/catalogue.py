"""The traits and resource classes that exist, and the traits and aggregates of each provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import delete, exists, insert, select
from sqlalchemy.exc import IntegrityError

from mooring.errors import Conflict, Invalid, NotFound
from mooring.placement import names, providers
from mooring.placement.standard_traits import STANDARD_TRAITS
from mooring.placement.tables import (
    InventoryRow,
    ProviderAggregateRow,
    ProviderTraitRow,
    ResourceClassRow,
    TraitRow,
)
from mooring.store.prepared import Among

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from sqlalchemy.orm import Session

T = TypeVar("T", TraitRow, ResourceClassRow)


def traits(tx: Session, *, associated: bool | None = None) -> list[str]:
    """Return the names of all traits; of those that providers have, or that none has."""
    every = STANDARD_TRAITS.union(tx.scalars(select(TraitRow.name)))
    if associated is None:
        return sorted(every)
    used = set(tx.scalars(select(ProviderTraitRow.name).distinct()))
    return sorted(used if associated else every - used)


def resource_classes(tx: Session) -> list[str]:
    """Return the names of all resource classes, the standard ones first."""
    custom = select(ResourceClassRow.name).order_by(ResourceClassRow.name)
    return [*names.STANDARD_CLASSES, *tx.scalars(custom)]


def has_trait(tx: Session, name: str) -> bool:
    """Tell whether a trait exists."""
    return name in STANDARD_TRAITS or _is_there(tx, TraitRow, name)


def check_class(tx: Session, name: str) -> None:
    """Raise NotFound when a resource class does not exist."""
    if name not in names.STANDARD_CLASSES and not _is_there(tx, ResourceClassRow, name):
        raise NotFound(f"No such resource class: {name[:64]}.")


def make_trait(tx: Session, name: str, now: datetime) -> bool:
    """Make a custom trait; False when it is there already. Raises Invalid for another name."""
    names.check_custom("trait", name)
    return _make(tx, TraitRow, name, now)


def make_class(tx: Session, name: str, now: datetime) -> bool:
    """Make a custom resource class; False when it is there already. Raises Invalid."""
    names.check_custom("resource class", name)
    return _make(tx, ResourceClassRow, name, now)


def remove_trait(tx: Session, name: str) -> None:
    """Delete a custom trait. Raises Invalid, NotFound; Conflict while a provider has it."""
    if name in STANDARD_TRAITS:
        raise Invalid(f"The trait {name} is a standard one and cannot be deleted.")
    if not _is_there(tx, TraitRow, name):
        raise NotFound(f"No such trait: {name[:64]}.")
    if tx.scalar(select(exists().where(ProviderTraitRow.name == name))):
        raise Conflict(f"The trait {name} is in use by a resource provider. Take it away first.")
    tx.execute(delete(TraitRow).where(TraitRow.name == name))


def remove_class(tx: Session, name: str) -> None:
    """Delete a custom resource class. Raises Invalid, NotFound; Conflict while it is in use."""
    if name in names.STANDARD_CLASSES:
        raise Invalid(f"The resource class {name} is a standard one and cannot be deleted.")
    check_class(tx, name)
    if tx.scalar(select(exists().where(InventoryRow.resource_class == name))):
        raise Conflict(
            f"The resource class {name} is in use by an inventory. Delete the inventory first."
        )
    tx.execute(delete(ResourceClassRow).where(ResourceClassRow.name == name))


def rename_class(tx: Session, name: str, new_name: str, now: datetime) -> None:
    """Give a custom resource class another name. Raises Invalid, NotFound, Conflict."""
    names.check_custom("resource class", new_name)
    remove_class(tx, name)
    if not make_class(tx, new_name, now):
        raise Conflict(f"The resource class {new_name} already exists.")


def provider_traits(tx: Session, provider_ids: Collection[str]) -> dict[str, list[str]]:
    """Return the traits of some providers, sorted."""
    tx.flush()
    found: dict[str, list[str]] = {provider_id: [] for provider_id in provider_ids}
    for provider_id, name in _traits_of.all(tx, provider_ids):
        found[provider_id].append(name)
    return found


def set_traits(
    tx: Session, provider_id: str, wanted: Collection[str], *, seen: int | None, now: datetime
) -> int:
    """Make a provider have exactly these traits; return its new generation.

    Raises NotFound, Invalid for an unknown trait, Conflict for a stale generation.
    """
    providers.visible(tx, provider_id)
    names.check_traits(tx, wanted)
    if names.SHARING_TRAIT in wanted:
        raise Invalid(
            f"Providers that share by aggregate ({names.SHARING_TRAIT}) are not built here: give "
            "each provider inventory of its own."
        )
    generation = providers.advance(tx, provider_id, now, seen=seen)
    tx.execute(delete(ProviderTraitRow).where(ProviderTraitRow.provider_id == provider_id))
    rows = [{"provider_id": provider_id, "name": name} for name in sorted(set(wanted))]
    if rows:
        tx.execute(insert(ProviderTraitRow), rows)
    return generation


def provider_aggregates(tx: Session, provider_id: str) -> list[str]:
    """Return the ids of the aggregates that a provider is in, sorted."""
    table = ProviderAggregateRow
    query = select(table.aggregate_id).where(table.provider_id == provider_id)
    return list(tx.scalars(query.order_by(table.aggregate_id)))


def set_aggregates(tx: Session, provider_id: str, wanted: Collection[str]) -> None:
    """Make a provider be in exactly these aggregates."""
    table = ProviderAggregateRow
    tx.execute(delete(table).where(table.provider_id == provider_id))
    rows = [{"provider_id": provider_id, "aggregate_id": it} for it in sorted(set(wanted))]
    if rows:
        tx.execute(insert(table), rows)


def _is_there(tx: Session, table: type[T], name: str) -> bool:
    return bool(tx.scalar(select(exists().where(table.name == name))))


def _make(tx: Session, table: type[T], name: str, now: datetime) -> bool:
    if _is_there(tx, table, name):
        return False
    try:
        with tx.begin_nested():
            tx.execute(insert(table).values(name=name, created_at=now))
    except IntegrityError:
        # Somebody else made it between the look and the insert, which is as good.
        return False
    return True


_traits_of = Among[tuple[str, str]](
    lambda ids: (
        select(ProviderTraitRow.provider_id, ProviderTraitRow.name)
        .where(ProviderTraitRow.provider_id.in_(ids))
        .order_by(ProviderTraitRow.name)
    )
)
