"""How many requests that make little sense are sent: `make fuzz REQUESTS=20000` sends so many."""

from __future__ import annotations

from collections.abc import Mapping

USUAL = 100_000
"""On both databases together."""
_VARIABLE, _DATABASES = "FUZZ_REQUESTS", 2


def count_seeds(environment: Mapping[str, str], each: int) -> int:
    """Return for how many seeds, of `each` so many requests on each database; rounded up.

    Raises ValueError where it is no number above 0.
    """
    said = environment.get(_VARIABLE) or str(USUAL)
    if not (said.isascii() and said.isdecimal() and int(said)):
        raise ValueError(f"{_VARIABLE} is to be a number of requests above 0, not {said!r}.")
    return -(-int(said) // (each * _DATABASES))
