"""Query strings: which keys a call knows, and the page it asks for (facts/compute.md 9.4, 10)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from mooring import limits
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


def check_pattern(text: str, name: str) -> str:
    """Return a regular expression that cannot run for ever. Raises Invalid.

    A repeated group, a back reference or many wildcards make the search exponential, and a list
    runs it on each row.
    """
    wild = len(re.findall(r"(?<!\\)(?:[*+]|\{)", text))
    if len(text) > limits.COMPUTE_PATTERN_LENGTH or wild > limits.COMPUTE_PATTERN_WILDCARDS:
        raise Invalid(
            f"The pattern of {name} is too large: at most {limits.COMPUTE_PATTERN_LENGTH} "
            f"characters and {limits.COMPUTE_PATTERN_WILDCARDS} wildcards."
        )
    if re.search(r"\)\s*[*+?{]|\\[1-9]|\(\?", text):
        raise Invalid(f"The pattern of {name} may not have repeated groups or back references.")
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise Invalid(f"Invalid input for query parameter {name}: {text} is no pattern.") from error
    return text
