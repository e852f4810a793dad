"""Whether a pool can do what a share type asks for. Source: facts/shared_file_systems.md 13.6."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ELSEWHERE = ("availability_zones", "mount_point_name_support", "default_qos_type")
"""Extra specs that no pool's capability is compared with."""


def suits(has: Mapping[str, Any], extra_specs: Mapping[str, str]) -> bool:
    """Whether capabilities meet all extra specs that speak of them, scoped `capabilities:` or not.

    Those of other scopes are for others. A key that no pool knows is met by none.
    """
    for key, value in extra_specs.items():
        name = key.removeprefix("capabilities:")
        if ":" not in name and name not in _ELSEWHERE and not _meets(has, name, value):
            return False
    return True


def zones_of(extra_specs: Mapping[str, str]) -> frozenset[str]:
    """Return the availability zones that a type keeps to; none when it keeps to none."""
    names = extra_specs.get("availability_zones", "").split(",")
    return frozenset(name.strip() for name in names if name.strip())


def is_true(value: str) -> bool:
    """Read the boolean of an extra spec: `True`, or `<is> True`."""
    return value.removeprefix("<is>").strip().lower() in {"true", "1", "yes"}


def _meets(has: Mapping[str, Any], name: str, value: str) -> bool:
    if name not in has:
        return False
    found = has[name]
    words = value.split()
    if isinstance(found, bool):
        # Not to ask for something is no reason to refuse a pool that can do it besides.
        return found or not is_true(value)
    if words[:1] == ["<in>"]:
        return " ".join(words[1:]) in str(found)
    if words[:1] in (["<is>"], ["s=="]):
        return str(found).lower() == " ".join(words[1:]).lower()
    return str(found) == value
