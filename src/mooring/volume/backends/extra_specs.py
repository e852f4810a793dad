"""Whether a pool can do what a volume type asks for. Source: facts/block_storage.md 11.3.

`volume_backend_name` names a pool: each of ours is what another cloud calls a backend.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

_SPECIAL = ("multiattach", "replication_enabled", "reimage_")
"""Unscoped extra specs that speak of a volume and not of its pool, by how they begin."""
_SCOPE = "capabilities:"
_NUMBERS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.ge,
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
_TEXTS: dict[str, Callable[[str, str], bool]] = {
    "<is>": lambda found, wanted: found.lower() == wanted.lower(),
    "<in>": lambda found, wanted: wanted in found,
    "s==": operator.eq,
    "s!=": operator.ne,
    "s<": operator.lt,
    "s<=": operator.le,
    "s>": operator.gt,
    "s>=": operator.ge,
}
_OR = "<or>"


def suits(has: Mapping[str, Any], extra_specs: Mapping[str, str]) -> bool:
    """Whether capabilities meet all extra specs that speak of them, scoped `capabilities:` or not.

    Those of other scopes are for others. A key that no pool knows is met by none.
    """
    return not find_unmet(has, extra_specs)


def find_unmet(has: Mapping[str, Any], extra_specs: Mapping[str, str]) -> list[str]:
    """Return the extra specs that capabilities do not meet, each as `key=value`; as `suits`."""
    unmet: list[str] = []
    for key, value in extra_specs.items():
        name = key.removeprefix(_SCOPE)
        if (":" in key and name == key) or key.startswith(_SPECIAL):
            continue
        if name not in has or not _meets(has[name], value):
            unmet.append(f"{key}={value}")
    return unmet


def _meets(found: Any, wanted: str) -> bool:
    """Compare by the operator in front, `=` being at least; by the text where there is none."""
    words, text = wanted.split(), str(found)
    first, rest = (words[0], " ".join(words[1:])) if words else ("", "")
    if first == _OR:
        return text in [one.strip() for one in wanted.split(_OR)]
    if first in _TEXTS:
        return _TEXTS[first](text, rest)
    if first in _NUMBERS:
        try:
            return _NUMBERS[first](float(text), float(rest))
        except ValueError:
            return False
    return text == wanted
