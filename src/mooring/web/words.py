"""Values as clients of OpenStack write them: numbers in strings, booleans in words, times.

Source: facts/block_storage.md 7.4.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from mooring.errors import Invalid

Flag: TypeAlias = bool | int | str

_TRUE = frozenset(("1", "t", "true", "on", "y", "yes"))
_FALSE = frozenset(("0", "f", "false", "off", "n", "no"))


def flag(value: Flag, name: str) -> bool:
    """Read a boolean in any of its spellings. Raises Invalid."""
    word = str(value).strip().lower()
    if word in _TRUE:
        return True
    if word in _FALSE:
        return False
    raise Invalid(f"Invalid input for field/attribute {name}. Value: {value}. It is no boolean.")


def read_flag(query: Mapping[str, str], name: str) -> bool:
    """Whether a query says yes to something, or nothing of it. Raises Invalid for no boolean."""
    return name in query and flag(query[name], name)


def is_set(text: str | None) -> bool:
    """Whether a query parameter that is not checked says yes."""
    return (text or "").strip().lower() in _TRUE


def instant(text: str) -> datetime:
    """Return a time of ISO 8601 in UTC; without a zone it is meant so.

    Raises ValueError for what is none, and for one that lies beyond the calendar in UTC.
    """
    moment = datetime.fromisoformat(text.strip())
    try:
        return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
    except OverflowError as error:
        raise ValueError(f"{text} is beyond the calendar.") from error


def whole_number(value: int | str, name: str, *, least: int, most: int) -> int:
    """Read a whole number that may come as text. Raises Invalid."""
    text = str(value).strip()
    if isinstance(value, bool) or not text.removeprefix("-").isdecimal() or not text.isascii():
        raise Invalid(
            f"Invalid input for field/attribute {name}. Value: {value}. It is no whole number.",
        )
    number = int(text) if len(text) < 20 else most + 1
    if not least <= number <= most:
        raise Invalid(
            f"Invalid input for field/attribute {name}. Value: {value}. It must be from {least} to "
            f"{most}.",
        )
    return number


def pairs(text: str, name: str) -> dict[str, str]:
    """Read a filter that is a dictionary in Python's or JSON's spelling. Raises Invalid."""
    try:
        found: Any = ast.literal_eval(text[:4096])
        if not isinstance(found, dict):
            raise _no_pairs(name)
        items = cast("dict[Any, Any]", found).items()
        # A number that was written in another base may have more digits than are shown.
        read = {str(key): str(value) for key, value in items}
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise _no_pairs(name) from error
    if not all(map(_can_be_stored, (*read, *read.values()))):
        raise _no_pairs(name)
    return read


def _can_be_stored(text: str) -> bool:
    """Whether a database takes a text that was written with escapes: no NUL, nor half a letter."""
    return "\0" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


def _no_pairs(name: str) -> Invalid:
    return Invalid(
        f"Invalid input received: The filter {name} is no dictionary. Write it as "
        "{'key': 'value'}.",
    )
