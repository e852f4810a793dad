"""A seeded fault: it breaks one promise in one place, and names the tests that must notice.

The faults stand in one module for each area beside this one, which `test_mutants.py` finds by
itself. A patch must fit exactly once: when code moves on, its mutant is moved along.
"""

from __future__ import annotations

from msgspec import Struct

STEPS, CALLS = "tests/laws/test_steps.py", "tests/laws/test_calls.py"
FAILING = "test_failing_anywhere_leaves_no_trace_or_a_declared_end"
CRASHING = "test_crashing_anywhere_ends_after_the_restart"


class Mutant(Struct, frozen=True):
    """One fault. `file` is below src/mooring; `tests` and `only` are pytest's arguments."""

    name: str
    file: str
    old: str
    new: str
    tests: str
    only: str = ""
    more: str = ""
    """What the new text needs at the end of the file."""
    hangs: bool = False
    """Whether it is noticed by tests that do not end."""

    def __str__(self) -> str:
        return self.name
