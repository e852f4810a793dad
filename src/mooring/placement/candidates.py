"""Where a claim would fit: the providers that match, and the requests that could be written.

Every provider is a tree of its own and none shares by aggregate, so all groups of a query must be
met by one and the same provider. Groups that must be isolated from each other therefore never fit.
Source: facts/identity_image_placement.md 9.6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import exists, select

from mooring.placement import arithmetic, inventories, names
from mooring.placement.query import Wanted
from mooring.placement.tables import (
    InventoryRow,
    ProviderAggregateRow,
    ProviderRow,
    ProviderTraitRow,
)

if TYPE_CHECKING:
    from sqlalchemy import Select
    from sqlalchemy.orm import Session


AT_A_TIME = 128
"""Providers whose inventories are read at once."""


class Request(Struct, frozen=True, kw_only=True):
    """All groups of one query, by suffix; "" is the unnumbered one. `limit` 0 is no limit.

    `root` is what the root of the tree must be: the provider itself.
    """

    groups: dict[str, Wanted]
    root: Wanted = Wanted()
    isolate: bool = False
    limit: int = 0

    def resources(self) -> dict[str, int]:
        """Return what all groups ask for together."""
        total = Counter[str]()
        for wanted in self.groups.values():
            total.update(wanted.resources)
        return dict(total)

    def suffixes(self) -> list[str]:
        """Return the groups that ask for resources."""
        return [suffix for suffix, wanted in self.groups.items() if wanted.resources]


def check_names(tx: Session, wishes: Sequence[Wanted]) -> None:
    """Raise Invalid, naming them, for traits or resource classes that do not exist."""
    traits = set[str]().union(*(wanted.trait_names() for wanted in wishes))
    classes = {name for wanted in wishes for name in wanted.resources}
    names.check_traits(tx, traits, code=names.BAD_VALUE)
    names.check_classes(tx, classes, code=names.BAD_VALUE)


def find(tx: Session, request: Request) -> list[str]:
    """Return the ids of the providers that meet every group. Raises Invalid for unknown names."""
    groups = [*request.groups.values(), request.root]
    check_names(tx, groups)
    named = [suffix for suffix in request.suffixes() if suffix]
    if request.isolate and len(named) > 1:
        return []
    amounts = [wanted.resources for wanted in groups if wanted.resources]
    found = matching(tx, groups, [*amounts, request.resources()], few=request.limit)
    return list(islice(found, request.limit or None))


def matching(
    tx: Session, groups: Sequence[Wanted], amounts: Sequence[Mapping[str, int]], *, few: int = 0
) -> Iterator[str]:
    """Yield the ids of the providers that are as all `groups` say, and can give each amount.

    What they have and give is read for some at a time: who wants a `few` reads little of many.
    """
    query = select(ProviderRow.id).order_by(ProviderRow.id)
    for wanted in groups:
        query = _narrow(query, wanted)
    classes = {name for amount in amounts for name in amount}
    for name in classes:
        query = query.where(
            exists().where(
                InventoryRow.provider_id == ProviderRow.id, InventoryRow.resource_class == name
            )
        )
    for some in _portions(tx, query, few):
        if not classes:
            yield from some
            continue
        stocks, used = inventories.load(tx, some, classes), inventories.uses(tx, some)
        for provider_id in some:
            if all(fits(provider_id, amount, stocks[provider_id], used) for amount in amounts):
                yield provider_id


def _portions(tx: Session, query: Select[str], few: int) -> Iterator[Sequence[str]]:
    """Yield what a query for providers finds in portions: at first as many as are wanted.

    Whoever is content with those does not make the database look at all providers.
    """
    if few:
        size = min(few, AT_A_TIME)
        first = tx.scalars(query.limit(size)).all()
        yield first
        if len(first) < size:
            return
        query = query.where(ProviderRow.id > first[-1])
    others = tx.scalars(query).all()
    for start in range(0, len(others), AT_A_TIME):
        yield others[start : start + AT_A_TIME]


def fits(
    provider_id: str,
    amounts: Mapping[str, int],
    stocks: Mapping[str, inventories.Inventory],
    used: inventories.Uses,
) -> bool:
    """Tell whether a provider can give these amounts beside what is used already."""
    return not any(
        arithmetic.refusal(stocks[name], used.get((provider_id, name), 0), amount)
        for name, amount in amounts.items()
    )


def _narrow(query: Select[str], wanted: Wanted) -> Select[str]:
    """Add the conditions on traits, aggregates and tree to a query for providers."""
    for any_of in wanted.required:
        query = query.where(
            exists().where(
                ProviderTraitRow.provider_id == ProviderRow.id, ProviderTraitRow.name.in_(any_of)
            )
        )
    if wanted.forbidden:
        query = query.where(
            ~exists().where(
                ProviderTraitRow.provider_id == ProviderRow.id,
                ProviderTraitRow.name.in_(wanted.forbidden),
            )
        )
    for members in wanted.member_of:
        inside = exists().where(
            ProviderAggregateRow.provider_id == ProviderRow.id,
            ProviderAggregateRow.aggregate_id.in_(members.aggregates),
        )
        query = query.where(~inside if members.forbidden else inside)
    if wanted.in_tree:
        query = query.where(ProviderRow.id == wanted.in_tree)
    return query
