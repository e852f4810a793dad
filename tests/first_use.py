"""Runs in a process of its own: threads that all use a type for the first time."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from mooring import typed

WORKERS = 4
FIELDS = 40
CONTENT = b'{"plain_7": {"a": 1}, "plain_39": {"b": 2}}'


def new_type() -> Any:
    """Make a Struct whose first field is one, too: describing that gives others time to come."""
    many: list[Any] = [(f"deep_{n}", int | None, None) for n in range(FIELDS)]
    inner = msgspec.defstruct("Inner", many)
    plain: list[Any] = [(f"plain_{n}", dict[str, int] | None, None) for n in range(FIELDS)]
    return msgspec.defstruct("Outer", [("inner", inner | None, None), *plain])


def main(rounds: int) -> None:
    """Let all threads begin together, once for each new type."""
    sys.setswitchinterval(1e-6)
    together = threading.Barrier(WORKERS)

    def use(kind: Any) -> None:
        together.wait()
        read = typed.decode(CONTENT, kind)
        assert (read.plain_7, read.plain_39) == ({"a": 1}, {"b": 2})

    with ThreadPoolExecutor(WORKERS) as threads:
        for _ in range(rounds):
            list(threads.map(use, [new_type()] * WORKERS))
    sys.stdout.write(f"{rounds} types\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
