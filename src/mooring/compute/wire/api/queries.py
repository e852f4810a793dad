"""Query strings: which keys a call knows, and the page it asks for (facts/compute.md 9.4, 10)."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from mooring.compute.service import Compute
from mooring.errors import Invalid
from mooring.web.api import Call, Version

PAGING = ("limit", "marker")
_ALWAYS_STRICT = (2, 75)


def check_keys(
    call: Call[Compute], known: Collection[str], *, strict_since: Version = _ALWAYS_STRICT
) -> None:
    """Raise Invalid for a key that this call does not know, from `strict_since` on."""
    unknown = sorted(set(call.query) - set(known))
    if unknown and call.version >= strict_since:
        raise Invalid(
            f"Additional query parameters are not allowed: {', '.join(unknown)}. "
            f"Known ones are {', '.join(sorted(known)) or 'none'}."
        )


def read_one(call: Call[Compute], key: str, choices: Sequence[str], otherwise: str) -> str:
    """Return a key's value, one of a few. Raises Invalid for another."""
    value = call.query.get(key, otherwise)
    if value not in choices:
        raise Invalid(f"Invalid input for query parameter {key}: {value}. It is one of {choices}.")
    return value
