"""What a query asks of providers: resources, traits, aggregates; alone or in granular groups.

Source: facts/identity_image_placement.md 9.6 and 9.10.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from msgspec import Struct

from mooring.errors import Invalid
from mooring.placement.inventories import MOST
from mooring.placement.names import BAD_VALUE

if TYPE_CHECKING:
    from starlette.datastructures import QueryParams

Version = tuple[int, int]
MISSING_VALUE = "placement.query.missing_value"
DUPLICATE_KEY = "placement.query.duplicate_key"

FORBIDDEN_TRAITS: Version = (1, 22)
MANY_MEMBER_OF: Version = (1, 24)
GRANULAR: Version = (1, 25)
IN_TREE: Version = (1, 31)
FORBIDDEN_AGGREGATES: Version = (1, 32)
LONG_SUFFIXES: Version = (1, 33)
ROOT_REQUIRED: Version = (1, 35)
SAME_SUBTREE: Version = (1, 36)
ANY_TRAITS: Version = (1, 39)
_TRAIT = re.compile(r"[A-Z0-9_]{1,255}")


class Members(Struct, frozen=True):
    """One condition on aggregates: in at least one of them, or (`forbidden`) in none."""

    aggregates: frozenset[str]
    forbidden: bool = False


class Wanted(Struct, frozen=True, kw_only=True):
    """What one provider must be and have.

    Of each set in `required` it needs at least one trait.
    """

    resources: dict[str, int] = {}
    required: tuple[frozenset[str], ...] = ()
    forbidden: frozenset[str] = frozenset()
    member_of: tuple[Members, ...] = ()
    in_tree: str = ""

    def trait_names(self) -> set[str]:
        """Return every trait that is named."""
        return set(self.forbidden).union(*self.required)


def check_keys(query: QueryParams, known: Mapping[str, Version], version: Version) -> None:
    """Raise Invalid for a parameter that does not exist in `version`."""
    for key in query:
        if key not in known or version < known[key]:
            raise _bad(f"Invalid query string parameter: {key[:64]!r} is not known here.")


def single(query: QueryParams, key: str) -> str | None:
    """Return the one value of a parameter. Raises Invalid when it is given twice."""
    values = query.getlist(key)
    if len(values) > 1:
        raise Invalid(f"Invalid query string: {key} is given more than once.", code=DUPLICATE_KEY)
    return values[0] if values else None


def read_uuid(text: str, key: str) -> str:
    """Return a uuid as it was written. Raises Invalid."""
    try:
        UUID(text)
    except ValueError as error:
        raise _bad(f"Invalid query string parameter: {key} needs a uuid, not {text[:64]!r}.") from (
            error
        )
    return text


def read_wanted(query: QueryParams, version: Version, suffix: str = "") -> Wanted:
    """Return what the parameters with one suffix ask for. Raises Invalid."""
    resources = single(query, f"resources{suffix}")
    in_tree = single(query, f"in_tree{suffix}")
    required, forbidden = read_traits(query, f"required{suffix}", version)
    return Wanted(
        resources={} if resources is None else read_resources(resources),
        required=required,
        forbidden=forbidden,
        member_of=_read_members(query, f"member_of{suffix}", version),
        in_tree="" if in_tree is None else read_uuid(in_tree, f"in_tree{suffix}"),
    )


def read_resources(text: str) -> dict[str, int]:
    """Read `VCPU:1,MEMORY_MB:512`. Raises Invalid."""
    found: dict[str, int] = {}
    for part in text.split(","):
        name, colon, count = part.partition(":")
        amount = int(count) if count.isascii() and count.isdigit() and len(count) < 11 else 0
        if not (name and colon and 1 <= amount <= MOST):
            raise _bad(
                "Badly formed resources parameter. Expected resources query string parameter in "
                f"form: ?resources=VCPU:2,MEMORY_MB:1024. Got: {text[:200]}."
            )
        if name in found:
            raise _bad(f"The resources parameter names {name} twice.")
        found[name] = amount
    return found


def read_traits(
    query: QueryParams, key: str, version: Version
) -> tuple[tuple[frozenset[str], ...], frozenset[str]]:
    """Return the sets of which one trait each is required, and the forbidden traits.

    Reads `A,B`, from 1.22 on `!C` as well, from 1.39 on `in:A,B` and repetition. Raises Invalid.
    """
    values = query.getlist(key) if version >= ANY_TRAITS else _list(single(query, key))
    required: list[frozenset[str]] = []
    forbidden: set[str] = set()
    for value in values:
        any_of = value.removeprefix("in:") if version >= ANY_TRAITS else value
        if any_of != value:
            required.append(frozenset(_trait(name, key) for name in any_of.split(",")))
            continue
        for name in value.split(","):
            if name.startswith("!") and version >= FORBIDDEN_TRAITS:
                forbidden.add(_trait(name[1:], key))
            else:
                required.append(frozenset((_trait(name, key),)))
    both = {name for names in required if names <= forbidden for name in names}
    if both:
        raise _bad(f"The parameter {key} requires and forbids the same: {', '.join(sorted(both))}.")
    return tuple(required), frozenset(forbidden)


def _read_members(query: QueryParams, key: str, version: Version) -> tuple[Members, ...]:
    values = query.getlist(key) if version >= MANY_MEMBER_OF else _list(single(query, key))
    return tuple(_members(value, key, version) for value in values)


def _members(value: str, key: str, version: Version) -> Members:
    forbidden = value.startswith("!")
    if forbidden and version < FORBIDDEN_AGGREGATES:
        raise _bad(f"Forbidden aggregates in {key} need version 1.32 or newer.")
    text = value.removeprefix("!")
    listed = text.removeprefix("in:")
    ids = listed.split(",") if listed != text else [text]
    return Members(frozenset(read_uuid(each, key) for each in ids), forbidden=forbidden)


def _trait(name: str, key: str) -> str:
    if not _TRAIT.fullmatch(name):
        raise _bad(
            f"Invalid query string parameter: expected {key} to be traits like "
            f"HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: {name[:64]!r}."
        )
    return name


def _list(value: str | None) -> Sequence[str]:
    return [] if value is None else [value]


def _bad(message: str) -> Invalid:
    return Invalid(message, code=BAD_VALUE)
