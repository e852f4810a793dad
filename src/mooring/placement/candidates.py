"""Where a claim would fit: the providers that match, and the requests that could be written.

Every provider is a tree of its own and none shares by aggregate, so all groups of a query must be
met by one and the same provider. Groups that must be isolated from each other therefore never fit.
Source: facts/identity_image_placement.md 9.6.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import and_, exists, func, select

from mooring.errors import Invalid
from mooring.limits import PLACEMENT_NAMES
from mooring.placement import arithmetic, inventories, names
from mooring.placement.query import Wanted
from mooring.placement.tables import (
    InventoryRow,
    ProviderAggregateRow,
    ProviderRow,
    ProviderTraitRow,
)

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Select
    from sqlalchemy.orm import Session


AT_A_TIME = 128
"""Providers whose inventories are read at once."""


MOST_CHOICES = 20
"""Conditions of one query that one name of several meets. Each is a join."""
_JOINED = 4
"""Up to so many names that are all needed are quickest as a join each; more are counted.

PostgreSQL takes ever longer to plan many joins: for 200 it thought for 27 s.
"""
_TRAIT, _AGGREGATE, _CLASS = "trait", "aggregate", "class"
_COLUMNS = {
    _TRAIT: (ProviderTraitRow.provider_id, ProviderTraitRow.name),
    _AGGREGATE: (ProviderAggregateRow.provider_id, ProviderAggregateRow.aggregate_id),
    _CLASS: (InventoryRow.provider_id, InventoryRow.resource_class),
}


class _Need(Struct, frozen=True):
    """A provider has one of these names, or (`forbidden`) none."""

    kind: str
    names: frozenset[str]
    forbidden: bool = False

    @property
    def is_choice(self) -> bool:
        """Whether one of several names will do."""
        return len(self.names) > 1 and not self.forbidden


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
    Raises Invalid for more names than a query may have.
    """
    classes = {name for amount in amounts for name in amount}
    query = select(ProviderRow.id).where(*_conditions(groups, classes)).order_by(ProviderRow.id)
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


def _conditions(groups: Sequence[Wanted], classes: AbstractSet[str]) -> list[ColumnElement[bool]]:
    """Return what a provider must be that meets all groups, each condition once. Raises Invalid."""
    needs = dict.fromkeys(need for wanted in groups for need in _needs(wanted))
    needs |= dict.fromkeys(_Need(_CLASS, frozenset((name,))) for name in sorted(classes))
    _check_size(needs)
    found: list[ColumnElement[bool]] = []
    for kind in _COLUMNS:
        mine = [need for need in needs if need.kind == kind]
        plain = [need for need in mine if not need.forbidden and len(need.names) == 1]
        if len(plain) <= _JOINED:
            found += [exists().where(_has(kind, need.names)) for need in plain]
        else:
            named = _together(plain)
            count = select(func.count()).where(_has(kind, named)).scalar_subquery()
            found.append(count == len(named))
        if barred := _together(need for need in mine if need.forbidden):
            found.append(~exists().where(_has(kind, barred)))
        choices = [need for need in mine if need.is_choice]
        found += [exists().where(_has(kind, need.names)) for need in choices]
    trees = dict.fromkeys(wanted.in_tree for wanted in groups if wanted.in_tree)
    return [*found, *(ProviderRow.id == tree for tree in trees)]


def _needs(wanted: Wanted) -> Iterator[_Need]:
    """Yield what one group says of traits and aggregates."""
    for any_of in wanted.required:
        yield _Need(_TRAIT, any_of)
    if wanted.forbidden:
        yield _Need(_TRAIT, wanted.forbidden, forbidden=True)
    for members in wanted.member_of:
        yield _Need(_AGGREGATE, members.aggregates, members.forbidden)


def _check_size(needs: Collection[_Need]) -> None:
    """Raise Invalid for a query that would keep the database busy for long."""
    named, choices = sum(len(need.names) for need in needs), sum(need.is_choice for need in needs)
    if named > PLACEMENT_NAMES or choices > MOST_CHOICES:
        raise Invalid(
            f"The query names {named} traits, aggregates and resource classes, and has {choices} "
            f"conditions that one of several meets. At most {PLACEMENT_NAMES} names and "
            f"{MOST_CHOICES} such conditions can be asked for: leave some out.",
            code=names.BAD_VALUE,
        )


def _together(needs: Iterable[_Need]) -> frozenset[str]:
    return frozenset[str]().union(*(need.names for need in needs))


def _has(kind: str, wanted: AbstractSet[str]) -> ColumnElement[bool]:
    """Return the condition on the rows of a provider that have one of the names."""
    of_provider, name = _COLUMNS[kind]
    return and_(of_provider == ProviderRow.id, name.in_(wanted))
