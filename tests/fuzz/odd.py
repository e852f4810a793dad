"""What is odd: values, texts, and JSON that was right before it was bent."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any, cast

TEXTS = (
    "",
    " ",
    "x",
    "-1",
    "0",
    "1.5",
    "99999999999999999999",
    "1e999",
    "NaN",
    "true",
    "null",
    "None",
    "a" * 256,
    "a" * 70_000,
    "ünï\u2028 \U0001f600",
    "\ud800",
    "\x7f\x1b[2J\r\nX-Header: 1",
    "\0",
    "%00",
    "{[]: 1}",
    r"{'a': '\ud800'}",
    r"{'a': '\0'}",
    "%",
    "../../etc/passwd",
    "'; DROP TABLE servers; --",
    "a{999}",
    "(",
    ".*.*.*.*b",
    "in:a,b",
    "gt:2026-01-01",
    "like:%",
    "name:asc,id:sideways",
    "2026-01-01",
    "2026-13-41T25:61:61Z",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "2026-01-01T00:00:00.123456789Z",
    "00000000-0000-0000-0000-000000000000",
    "urn:uuid:00000000000000000000000000000000",
    "//[::1",
    "h1@pool#x",
    "__class__",
)
_NUMBERS = (0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**400, 0.5, 1e308, float("nan"))
_COLLECTIONS: tuple[Any, ...] = ([], [[]], [None], {}, {"": ""}, {"a": {"b": [{"c": None}]}})
_MANY = 3000
"""How deep a value may lie within others, and how many there may be beside it."""


def value(chance: Random) -> Any:
    """Return a value that few fields are made for."""
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: None,
        lambda: chance.choice((True, False)),
        lambda: chance.choice(_NUMBERS),
        lambda: chance.choice(TEXTS),
        lambda: chance.choice(TEXTS),
        lambda: chance.choice(_COLLECTIONS),
        lambda: {text: text for text in chance.sample(TEXTS, 3)},
        lambda: [chance.choice(TEXTS)] * 2,
        lambda: {f"key{number}": "x" for number in range(_MANY)},
    )
    return chance.choice(kinds)()


def bend(chance: Random, right: Any) -> Any:
    """Return a copy of what was right with one thing in it changed, left out, or put in."""
    if isinstance(right, dict) and right and chance.random() < 0.85:
        members = dict(cast("dict[str, Any]", right))
        key = chance.choice(list(members))
        what = chance.random()
        if what < 0.12:
            del members[key]
        elif what < 0.24:
            members[chance.choice(TEXTS)] = value(chance)
        else:
            members[key] = bend(chance, members[key])
        return members
    if isinstance(right, list) and right and chance.random() < 0.85:
        items = list(cast("list[Any]", right))
        at = chance.randrange(len(items))
        what = chance.random()
        if what < 0.1:
            return items * 2
        if what < 0.2:
            return [*items, value(chance)]
        items[at] = bend(chance, items[at])
        return items
    return value(chance)


def content(chance: Random, body: Any) -> bytes:
    """Return a body as it is sent: mostly as JSON, seldom as what is none."""
    sent = json.dumps(body).encode()
    what = chance.random()
    if what < 0.02:
        return sent[: chance.randrange(len(sent) + 1)]
    if what < 0.04:
        at = chance.randrange(len(sent))
        return sent[:at] + bytes([chance.randrange(256)]) + sent[at + 1 :]
    if what < 0.05:
        return b"[" * _MANY
    return sent
