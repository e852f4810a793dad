"""For how long each host has been silent, as one process has seen it.

What the database says of when a host was seen last is not enough to fence it by: after a stop of
the control plane, or a step of its clock, every host would seem to have been silent for long.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

LONGEST_STEP_S = 15.0
"""What one look adds at most: a process that stood still has not watched meanwhile."""


class Silence:
    """Counts, look by look. `monotonic` is in seconds."""

    def __init__(self, monotonic: float) -> None:
        self._looked = monotonic
        self._seen: dict[str, datetime] = {}
        self._silent_s: dict[str, float] = {}

    def look(self, seen: Mapping[str, datetime], monotonic: float) -> dict[str, float]:
        """Return for how many seconds each host has not been seen anew, by its name."""
        step = min(monotonic - self._looked, LONGEST_STEP_S)
        self._looked = monotonic
        self._silent_s = {
            host: self._silent_s.get(host, 0.0) + step if self._seen.get(host) == at else 0.0
            for host, at in seen.items()
        }
        self._seen = dict(seen)
        return self._silent_s
