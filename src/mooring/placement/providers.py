"""Resource providers: their making, their generation, their end.

Every provider stands alone: providers inside providers are refused, so each is its own tree.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import bindparam, delete, exists, select, update
from sqlalchemy.exc import IntegrityError

from mooring.errors import Conflict, NotFound
from mooring.placement.names import CONCURRENT
from mooring.placement.tables import (
    AllocationRow,
    InventoryRow,
    ProviderAggregateRow,
    ProviderRow,
    ProviderTraitRow,
)
from mooring.store.prepared import Prepared

if TYPE_CHECKING:
    from collections.abc import Collection

    from sqlalchemy import Row
    from sqlalchemy.orm import Session

_DUPLICATE = "placement.duplicate_name"
_COLUMNS = (ProviderRow.id, ProviderRow.name, ProviderRow.generation, ProviderRow.updated_at)


class Provider(Struct, frozen=True):
    """One resource provider, as it stands."""

    id: str
    name: str
    generation: int
    updated_at: datetime


def visible(tx: Session, provider_id: str) -> Provider:
    """Return one provider. Raises NotFound. Whom the policy lets in sees them all."""
    row = tx.execute(select(*_COLUMNS).where(ProviderRow.id == provider_id)).first()
    if row is None:
        raise absent(provider_id)
    return _read(row)


def listed(
    tx: Session, *, ids: Collection[str] | None = None, name: str = "", provider_id: str = ""
) -> list[Provider]:
    """Return the providers in the order of their names, filtered by what is given."""
    query = select(*_COLUMNS).order_by(ProviderRow.name)
    if name:
        query = query.where(ProviderRow.name == name)
    if provider_id:
        query = query.where(ProviderRow.id == provider_id)
    found = [_read(row) for row in tx.execute(query)]
    return found if ids is None else [provider for provider in found if provider.id in set(ids)]


def create(tx: Session, provider_id: str, name: str, now: datetime) -> Provider:
    """Make a provider. Raises Conflict when the name or the id is taken."""
    _refuse_taken(tx, name=name, but="")
    row = ProviderRow(id=provider_id, name=name, generation=0, created_at=now, updated_at=now)
    try:
        with tx.begin_nested():
            tx.add(row)
            tx.flush()
    except IntegrityError as error:
        # The id was taken before, or the name a moment ago: only the second query can tell.
        _refuse_taken(tx, name=name, but="")
        # Nova takes this text for "made meanwhile" only without the phrase about the name.
        raise Conflict(
            f"Conflicting resource provider uuid: {provider_id} already exists.", code=_DUPLICATE
        ) from error
    return Provider(provider_id, name, 0, now)


def rename(tx: Session, provider_id: str, name: str, now: datetime) -> Provider:
    """Give a provider another name. Raises NotFound, Conflict."""
    visible(tx, provider_id)
    _refuse_taken(tx, name=name, but=provider_id)
    change = update(ProviderRow).where(ProviderRow.id == provider_id)
    tx.execute(change.values(name=name, updated_at=now))
    return visible(tx, provider_id)


def remove(tx: Session, provider_id: str) -> None:
    """Delete a provider with all that belongs to it. Raises NotFound; Conflict while in use."""
    visible(tx, provider_id)
    if tx.scalar(select(exists().where(AllocationRow.provider_id == provider_id))):
        raise Conflict(
            f"Unable to delete resource provider {provider_id}: it has allocations. Delete or move "
            "what holds them first.",
            code="placement.resource_provider.inuse",
        )
    for table in (ProviderTraitRow, ProviderAggregateRow, InventoryRow):
        tx.execute(delete(table).where(table.provider_id == provider_id))
    tx.execute(delete(ProviderRow).where(ProviderRow.id == provider_id))


def advance(tx: Session, provider_id: str, now: datetime, *, seen: int | None = None) -> int:
    """Raise a provider's generation and return it; others who would wait until we commit.

    `seen` is the generation that the caller's wish was made from. Raises NotFound, Conflict.
    """
    tx.flush()
    if seen is None:
        generation = _advance.first(tx, of_id=provider_id, updated_at=now)
    else:
        generation = _advance_seen.first(tx, of_id=provider_id, of_generation=seen, updated_at=now)
    if generation is not None:
        return generation
    there = visible(tx, provider_id)
    raise Conflict(
        f"resource provider generation conflict: provider {provider_id} is at generation "
        f"{there.generation}, the request says {seen}. Read the provider again and repeat.",
        code=CONCURRENT,
    )


def absent(provider_id: str) -> NotFound:
    """Return the error for a provider that is not there."""
    return NotFound(f"No resource provider with uuid {provider_id[:64]} found.")


def _refuse_taken(tx: Session, *, name: str, but: str) -> None:
    query = select(ProviderRow.id).where(ProviderRow.name == name, ProviderRow.id != but)
    if tx.execute(query).first() is not None:
        # Nova looks for these words to tell a taken name from a taken id.
        raise Conflict(
            f"Conflicting resource provider name: {name} already exists.", code=_DUPLICATE
        )


def _read(row: Row[str, str, int, datetime]) -> Provider:
    return Provider(*row)


_advancing = (
    update(ProviderRow)
    .where(ProviderRow.id == bindparam("of_id"))
    .values(generation=ProviderRow.generation + 1)
    .returning(ProviderRow.generation)
)
_advance = Prepared(_advancing, int)
_advance_seen = Prepared(
    _advancing.where(ProviderRow.generation == bindparam("of_generation")), int
)
