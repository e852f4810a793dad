"""How long things took: counts under fixed bounds, cheap enough to be kept of everything."""

from __future__ import annotations

from bisect import bisect_left

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds of what is counted together, in seconds; one more count has what took longer."""


class Timing:
    """Durations of one kind of thing, since the process began."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        """How many took at most each of BOUNDS_S and longer than the one before; then the rest."""
        self.sum_s = 0.0

    def note(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS_S, seconds)] += 1
        self.sum_s += seconds
