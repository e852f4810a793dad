"""Allocations: who holds what. Two who race for the last unit meet at the provider's row.

Every write first raises the generation of the providers it touches, which makes others who touch
them wait for its end, and only then adds up what is used. So no two of them see the same free unit.
Source: facts/identity_image_placement.md 9.4 and 9.5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from sqlalchemy import bindparam, delete, distinct, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from mooring.errors import Conflict, Invalid, NoCapacity, NotFound
from mooring.placement import arithmetic, inventories, names, providers
from mooring.placement.tables import AllocationRow, ConsumerRow, ProviderRow
from mooring.store.base import savepoint
from mooring.store.prepared import Among, Prepared, named

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

Amounts = dict[str, dict[str, int]]
"""Amounts by id (of a provider or of a consumer) and resource class."""


class Consumer(Struct, frozen=True, kw_only=True):
    """Somebody who holds resources, and what."""

    id: str
    project_id: str
    user_id: str
    consumer_type: str | None
    generation: int
    updated_at: datetime
    allocations: Amounts
    """By provider and class."""


class Wish(Struct, frozen=True, kw_only=True):
    """What a consumer is to hold: exactly `allocations`, by provider and class; {} is nothing.

    `generation` is what the caller saw, None for a consumer that is new; it is compared when
    `guarded` (from 1.28 on). A `consumer_type` of None leaves what there is.
    """

    allocations: Mapping[str, Mapping[str, int]]
    project_id: str
    user_id: str
    consumer_type: str | None = None
    generation: int | None = None
    guarded: bool = True


def find(tx: Session, consumer_id: str) -> Consumer | None:
    """Return a consumer with what it holds; None for one that holds nothing."""
    row = _consumer.first(tx, of_id=consumer_id)
    if row is None:
        return None
    return Consumer(
        id=consumer_id,
        project_id=row.project_id,
        user_id=row.user_id,
        consumer_type=row.consumer_type,
        generation=row.generation,
        updated_at=row.updated_at,
        allocations=_held(tx, consumer_id),
    )


def of_provider(tx: Session, provider_id: str) -> tuple[Amounts, dict[str, int]]:
    """Return what is held of a provider, by consumer and class, and the consumers' generations."""
    held: Amounts = {}
    generations: dict[str, int] = {}
    table = AllocationRow
    query = (
        select(table.consumer_id, table.resource_class, table.amount, ConsumerRow.generation)
        .join(ConsumerRow, ConsumerRow.id == table.consumer_id)
        .where(table.provider_id == provider_id)
        .order_by(table.consumer_id, table.resource_class)
    )
    for consumer_id, name, amount, generation in tx.execute(query):
        held.setdefault(consumer_id, {})[name] = amount
        generations[consumer_id] = generation
    return held, generations


def generations(tx: Session, provider_ids: Collection[str]) -> dict[str, int]:
    """Return the generations of some providers."""
    return dict(_generations.all(tx, provider_ids))


def usages(
    tx: Session, project_id: str, user_id: str | None
) -> dict[str | None, tuple[int, dict[str, int]]]:
    """Return how many consumers of a project there are and what they hold, by consumer type."""
    mine = ConsumerRow.project_id == project_id
    if user_id is not None:
        mine = mine & (ConsumerRow.user_id == user_id)
    kind = ConsumerRow.consumer_type
    counts = select(kind, func.count(distinct(ConsumerRow.id))).where(mine).group_by(kind)
    found: dict[str | None, tuple[int, dict[str, int]]] = {
        name: (count, {}) for name, count in tx.execute(counts)
    }
    amounts = (
        select(kind, AllocationRow.resource_class, func.sum(AllocationRow.amount))
        .join(ConsumerRow, ConsumerRow.id == AllocationRow.consumer_id)
        .where(mine)
        .group_by(kind, AllocationRow.resource_class)
    )
    for name, resource_class, amount in tx.execute(amounts):
        found[name][1][resource_class] = int(amount)
    return found


def replace(tx: Session, wishes: Mapping[str, Wish], now: datetime) -> None:
    """Make every consumer hold exactly what is wished for it, all or none of them.

    Raises Invalid for unknown providers or classes, Conflict for a stale consumer generation,
    NoCapacity when something does not fit: where a provider gives more of a class than before. What
    is given already stays, and changes hands, also on one that has less by now.
    """
    names.check_classes(tx, {name for _, _, name, _ in _lines(wishes)})
    wanted = {provider_id for _, provider_id, _, _ in _lines(wishes)}
    _lock(tx, wanted, list(wishes), now)
    for consumer_id in sorted(wishes):
        _guard(tx, consumer_id, wishes[consumer_id], now)
    given = inventories.uses(tx, wanted)
    held = Counter(line for one in wishes for line in _held_by.all(tx, of_consumer=one))
    _let_go.run(tx, wishes)
    _check_room(tx, wishes, wanted, given, held)
    rows = [
        {"consumer_id": consumer, "provider_id": provider, "resource_class": name, "amount": amount}
        for consumer, provider, name, amount in _lines(wishes)
    ]
    _add.run_each(tx, rows)
    _forget.run(tx, [consumer_id for consumer_id, wish in wishes.items() if not wish.allocations])


def remove(tx: Session, consumer_id: str, now: datetime) -> None:
    """Make a consumer hold nothing, whatever its generation. Raises NotFound."""
    _lock(tx, (), [consumer_id], now)
    tx.execute(delete(AllocationRow).where(AllocationRow.consumer_id == consumer_id))
    gone = delete(ConsumerRow).where(ConsumerRow.id == consumer_id).returning(ConsumerRow.id)
    if tx.scalar(gone) is None:
        raise NotFound(f"No allocations for consumer {consumer_id[:64]} found.")


def _held(tx: Session, consumer_id: str) -> Amounts:
    held: Amounts = {}
    for provider_id, name, amount in _held_by.all(tx, of_consumer=consumer_id):
        held.setdefault(provider_id, {})[name] = amount
    return held


def _lines(wishes: Mapping[str, Wish]) -> Iterable[tuple[str, str, str, int]]:
    """Return consumer, provider, class and amount of everything that is wished for."""
    for consumer_id, wish in wishes.items():
        for provider_id, resources in wish.allocations.items():
            for name, amount in resources.items():
                yield consumer_id, provider_id, name, amount


def _lock(
    tx: Session, wanted: Collection[str], consumer_ids: Collection[str], now: datetime
) -> None:
    """Raise the generation of every provider that gains or loses, in one order for everybody."""
    losing = set(_providers_of.all(tx, consumer_ids))
    for provider_id in sorted(losing.union(wanted)):
        try:
            providers.advance(tx, provider_id, now)
        except NotFound as error:
            raise Invalid(
                f"Allocation for resource provider {provider_id} that does not exist."
            ) from error


def _guard(tx: Session, consumer_id: str, wish: Wish, now: datetime) -> None:
    """Raise the consumer's generation, or make the consumer. Raises Conflict."""
    values: dict[str, Any] = {
        "project_id": wish.project_id,
        "user_id": wish.user_id,
        "updated_at": now,
    }
    if wish.consumer_type is not None:
        values["consumer_type"] = wish.consumer_type
    if wish.guarded:
        # Generations begin at 1, so a consumer that was thought to be new matches none.
        seen = {"of_generation": wish.generation or 0}
        changed = _change_seen.run(tx, {**values, **seen, "of_id": consumer_id})
    else:
        changed = _change.run(tx, {**values, "of_id": consumer_id})
    if changed:
        return
    if wish.guarded and wish.generation is not None:
        raise _stale(tx, consumer_id, wish)
    try:
        with savepoint(tx):
            _add_consumer.run(tx, {**values, "id": consumer_id, "generation": 1})
    except IntegrityError as error:
        raise _stale(tx, consumer_id, wish) from error


def _stale(tx: Session, consumer_id: str, wish: Wish) -> Conflict:
    query = select(ConsumerRow.generation).where(ConsumerRow.id == consumer_id)
    there = tx.scalar(query)
    # Nova knows this conflict by the words "consumer generation conflict", and only by them.
    return Conflict(
        f"consumer generation conflict: consumer {consumer_id} is at generation "
        f"{'null' if there is None else there}, the request says "
        f"{'null' if wish.generation is None else wish.generation}. Read its allocations again.",
        code=names.CONCURRENT,
    )


def _check_room(
    tx: Session,
    wishes: Mapping[str, Wish],
    wanted: Collection[str],
    given: Mapping[tuple[str, str], int],
    held: Counter[tuple[str, str, int]],
) -> None:
    """Raise NoCapacity, saying where and why, unless everything fits, or was given before.

    What one of the consumers held may be more than is given to one by now, and all that is given
    more than there is.
    """
    stocks = inventories.load(tx, wanted)
    used = inventories.uses(tx, wanted)
    for _, provider_id, name, amount in _lines(wishes):
        inventory = stocks.get(provider_id, {}).get(name)
        if inventory is None:
            raise NoCapacity(f"Resource provider {provider_id} has no inventory of {name}.")
        taken = used.get((provider_id, name), 0)
        line = provider_id, name, amount
        why = "" if held[line] else arithmetic.unit_refusal(inventory, amount)
        held[line] -= bool(held[line])
        if not why and taken + amount > given.get((provider_id, name), 0):
            why = arithmetic.room_refusal(inventory, taken, amount)
        if why:
            raise NoCapacity(
                f"Unable to allocate {name} on resource provider {provider_id}: {why}. Ask for "
                "less, or for another provider."
            )
        used[provider_id, name] = taken + amount


_columns = (
    ConsumerRow.project_id,
    ConsumerRow.user_id,
    ConsumerRow.consumer_type,
    ConsumerRow.generation,
    ConsumerRow.updated_at,
)
_is_it = ConsumerRow.id == bindparam("of_id")
_consumer = Prepared(select(*_columns).where(_is_it), named("ConsumerFound", _columns))
_changing = update(ConsumerRow).where(_is_it).values(generation=ConsumerRow.generation + 1)
_change = Prepared[Any](_changing)
_change_seen = Prepared[Any](_changing.where(ConsumerRow.generation == bindparam("of_generation")))
_add_consumer, _add = Prepared[Any](insert(ConsumerRow)), Prepared[Any](insert(AllocationRow))
_forget = Among[Any](lambda ids: delete(ConsumerRow).where(ConsumerRow.id.in_(ids)))
_let_go = Among[Any](lambda ids: delete(AllocationRow).where(AllocationRow.consumer_id.in_(ids)))
_held_by = Prepared[tuple[str, str, int]](
    select(AllocationRow.provider_id, AllocationRow.resource_class, AllocationRow.amount).where(
        AllocationRow.consumer_id == bindparam("of_consumer")
    )
)
_providers_of = Among(
    lambda ids: (
        select(AllocationRow.provider_id).where(AllocationRow.consumer_id.in_(ids)).distinct()
    ),
    str,
)
_generations = Among[tuple[str, int]](
    lambda ids: select(ProviderRow.id, ProviderRow.generation).where(ProviderRow.id.in_(ids))
)
