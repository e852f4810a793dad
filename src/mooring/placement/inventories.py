"""Inventories: what a provider has, and how much of it is used.

Source: facts/identity_image_placement.md 9.2 and 9.5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct, structs
from sqlalchemy import delete, func, select
from sqlalchemy.exc import IntegrityError

from mooring.errors import Conflict, Invalid, NotFound
from mooring.placement import arithmetic, names, providers
from mooring.placement.tables import AllocationRow, InventoryRow
from mooring.store.prepared import Among

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy.orm import Session

MOST = 2**31 - 1
Count = Annotated[int, Meta(ge=1, le=MOST)]

_IN_USE = "placement.inventory.inuse"
_COLUMNS = (
    InventoryRow.provider_id,
    InventoryRow.resource_class,
    InventoryRow.total,
    InventoryRow.reserved,
    InventoryRow.min_unit,
    InventoryRow.max_unit,
    InventoryRow.step_size,
    InventoryRow.allocation_ratio,
)


class Inventory(Struct, frozen=True, forbid_unknown_fields=True):
    """How much of one class there is, as the API writes it."""

    total: Count
    reserved: Annotated[int, Meta(ge=0, le=MOST)] = 0
    min_unit: Count = 1
    max_unit: Count = MOST
    step_size: Count = 1
    allocation_ratio: Annotated[float, Meta(ge=0, le=3.40282e38)] = 1.0


Stocks = dict[str, dict[str, Inventory]]
Uses = dict[tuple[str, str], int]


def of_provider(tx: Session, provider_id: str) -> dict[str, Inventory]:
    """Return the inventories of one provider, by class."""
    return load(tx, [provider_id]).get(provider_id, {})


def load(
    tx: Session, provider_ids: Collection[str], classes: Collection[str] | None = None
) -> Stocks:
    """Return the inventories of some providers, by provider and class."""
    tx.flush()
    found: Stocks = {}
    for provider_id, name, *amounts in _of_providers.all(tx, provider_ids):
        if classes is None or name in classes:
            found.setdefault(provider_id, {})[name] = Inventory(*amounts)
    return found


def uses(tx: Session, provider_ids: Collection[str]) -> Uses:
    """Return how much is allocated of some providers, by provider and class."""
    tx.flush()
    rows = _used_of.all(tx, provider_ids)
    return {(provider_id, name): int(amount) for provider_id, name, amount in rows}


def replace(
    tx: Session,
    provider_id: str,
    wanted: Mapping[str, Inventory],
    *,
    seen: int | None,
    now: datetime,
) -> int:
    """Make a provider have exactly `wanted`; return its new generation.

    Raises NotFound, Invalid, and Conflict for a stale generation or a class that is in use.
    """
    providers.visible(tx, provider_id)
    names.check_classes(tx, wanted)
    generation = providers.advance(tx, provider_id, now, seen=seen)
    there = of_provider(tx, provider_id)
    for name in there.keys() - wanted.keys():
        _drop(tx, provider_id, name)
    for name, inventory in wanted.items():
        _put(tx, provider_id, name, inventory)
    return generation


def put(
    tx: Session,
    provider_id: str,
    name: str,
    inventory: Inventory,
    *,
    seen: int | None,
    now: datetime,
    new: bool,
) -> int:
    """Add one class (`new`) or change one; return the provider's new generation.

    `seen` is the generation that the caller saw, None for whatever it is. Raises NotFound, Invalid,
    Conflict: a stale generation, or a new class that is there already.
    """
    providers.visible(tx, provider_id)
    names.check_classes(tx, [name])
    generation = providers.advance(tx, provider_id, now, seen=seen)
    is_there = name in of_provider(tx, provider_id)
    if new and is_there:
        raise Conflict(
            f"Resource provider {provider_id} has inventory of {name} already. Change it with PUT.",
        )
    if not new and not is_there:
        raise Invalid(f"Resource provider {provider_id} has no inventory of {name} to change.")
    _put(tx, provider_id, name, inventory)
    return generation


def remove(tx: Session, provider_id: str, name: str | None, now: datetime) -> None:
    """Take one class, or all with None, from a provider. Raises NotFound, Conflict while in use."""
    providers.visible(tx, provider_id)
    there = of_provider(tx, provider_id)
    if name is not None and name not in there:
        raise NotFound(f"Resource provider {provider_id} has no inventory of {name[:64]}.")
    providers.advance(tx, provider_id, now)
    for gone in there if name is None else [name]:
        _drop(tx, provider_id, gone)


def reshape(
    tx: Session,
    wanted: Mapping[str, Mapping[str, Inventory]],
    *,
    seen: Mapping[str, int],
    now: datetime,
    move: Callable[[], None],
) -> None:
    """Make several providers have exactly `wanted`, with `move` in between.

    While `move` changes the allocations, the inventories of before and of after both exist.
    `seen` has the generation of each provider. Raises as `replace`.
    """
    names.check_classes(tx, {name for each in wanted.values() for name in each})
    for provider_id in sorted(wanted):
        providers.visible(tx, provider_id)
        providers.advance(tx, provider_id, now, seen=seen[provider_id])
        for name, inventory in wanted[provider_id].items():
            _put(tx, provider_id, name, inventory)
    move()
    for provider_id, kept in wanted.items():
        for name in of_provider(tx, provider_id).keys() - kept.keys():
            _drop(tx, provider_id, name)


def check(wanted: Mapping[str, Inventory], *, all_reserved: bool) -> None:
    """Raise Invalid for an inventory of which nothing could ever be allocated.

    `all_reserved`: from 1.26 on the whole of it may be reserved.
    """
    for name, inventory in wanted.items():
        most = inventory.total if all_reserved else inventory.total - 1
        if inventory.reserved > most:
            raise Invalid(
                f"Invalid inventory of {name}: of {inventory.total} at most {most} can be "
                f"reserved, not {inventory.reserved}."
            )


def capacity(inventory: Inventory) -> int:
    """Return how much of an inventory may be allocated in all."""
    return arithmetic.capacity(inventory)


def _put(tx: Session, provider_id: str, name: str, inventory: Inventory) -> None:
    row = InventoryRow(provider_id=provider_id, resource_class=name, **structs.asdict(inventory))
    tx.merge(row)
    tx.flush()


def _drop(tx: Session, provider_id: str, name: str) -> None:
    gone = delete(InventoryRow).where(
        InventoryRow.provider_id == provider_id, InventoryRow.resource_class == name
    )
    try:
        with tx.begin_nested():
            tx.execute(gone)
    except IntegrityError as error:
        raise Conflict(
            f"Inventory for {name} on resource provider {provider_id} is in use: something is "
            "allocated from it. Delete or move what holds it first.",
            code=_IN_USE,
        ) from error


_of_providers = Among[Sequence[Any]](
    lambda ids: (
        select(*_COLUMNS)
        .where(InventoryRow.provider_id.in_(ids))
        .order_by(InventoryRow.resource_class)
    )
)
_used = AllocationRow.provider_id, AllocationRow.resource_class
_used_of = Among[tuple[str, str, int]](
    lambda ids: (
        select(*_used, func.sum(AllocationRow.amount))
        .where(AllocationRow.provider_id.in_(ids))
        .group_by(*_used)
    )
)
