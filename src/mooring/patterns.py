"""Regular expressions of callers, which filter lists: searched in linear time, whatever they say.

Python's own take a time that grows with a power of the text's length, while they hold up every
thread; RE2 cannot. What PostgreSQL's would read otherwise is refused on both databases alike.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module
from typing import Any

from mooring.errors import Invalid
from mooring.limits import PATTERN_LENGTH, PATTERNS_KEPT

_FOREIGN = re.compile(
    r"(?<!\\)(?:\\\\)*"
    r"(?:\\[a-zA-Z0-9](?<![dDwWsS])|\(\?|(?<!\[)[\^$][*+?{]"
    r"|\[\^?\]?(?:\\.|[^\]\\])*(?:\[[=.:]|\\[dDwWsS]-[^\]]|-(?:\\.|[^\]\\])-[^\]]))"
)
"""An escape but of a class of characters or of a sign, an extension of a group, a repeated anchor;
within brackets a named class, or a range from a class or from the end of another range."""
_REPEAT = re.compile(
    r"(?:^|[(|])\{[0-9]|\{(?=[0-9])(?!([0-9]{1,3})(?:,([0-9]{0,3}))?\})"
    r"|\{[0-9,]*(?:2(?:5[6-9]|[6-9][0-9])|[3-9][0-9]{2})"
)
"""A repetition of nothing, one that is not closed, or of more than 255 times: PostgreSQL takes
none of them."""


def check(text: str, name: str) -> str:
    """Return the regular expression of the filter `name`. Raises Invalid."""
    if len(text) > PATTERN_LENGTH or "\0" in text:
        raise Invalid(
            f"The pattern of {name} is too large: it has at most {PATTERN_LENGTH} characters."
        )
    if _FOREIGN.search(text) or _REPEAT.search(text):
        raise Invalid(
            f"The pattern of {name} has more than plain regular expressions have: of escapes there "
            r"are \d, \w, \s, their opposites, and signs; groups begin with ( alone; nothing is "
            "repeated more than 255 times."
        )
    try:
        _compile(text)
    except ValueError as error:
        raise Invalid(
            f"Invalid input for query parameter {name}: {text} is no pattern.", private=str(error)
        ) from error
    return text


def search(text: str, value: str | None) -> bool:
    """Tell whether a checked pattern is found anywhere in a value; never in none."""
    return value is not None and _compile(text).search(value) is not None


def begins(text: str, value: str) -> bool:
    """Tell whether a value begins with what a checked pattern means."""
    return _compile(text).match(value) is not None


@lru_cache(PATTERNS_KEPT)
def _compile(text: str) -> Any:
    re2: Any = import_module("re2")
    options = re2.Options()
    options.log_errors = False
    options.dot_nl = True  # As PostgreSQL's.
    try:
        return re2.compile(text, options)
    except re2.error as error:
        raise ValueError(str(error)) from error
