"""One line of the table, and how the parts hand theirs over: as JSON lines on standard output."""

from __future__ import annotations

import sys

import msgspec
from msgspec import Struct


class Row(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A figure, in `unit`. The budget is the most it may be; None where there is none."""

    what: str
    measured: float
    unit: str
    budget: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        """Whether the budget is met, and if not, by how much it is missed."""
        if self.budget is None:
            return ""
        if self.measured <= self.budget:
            return "met"
        return f"missed by {self.measured - self.budget:.3g} {self.unit}"


def tell(*rows: Row) -> None:
    """Hand rows over."""
    for row in rows:
        sys.stdout.write(msgspec.json.encode(row).decode() + "\n")
    sys.stdout.flush()


def render(rows: list[Row]) -> str:
    """Return the rows as a Markdown table."""
    lines = [["what", "budget", "measured", "verdict", "note"]]
    for row in rows:
        budget = "" if row.budget is None else f"{row.budget:g} {row.unit}"
        measured = f"{_short(row.measured)} {row.unit}"
        lines.append([row.what, budget, measured, row.verdict, row.note])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    lines.insert(1, ["-" * width for width in widths])
    padded = [
        [cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
