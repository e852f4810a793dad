"""Named points in the code where a test can fail, stop or kill the process that passes them."""

from __future__ import annotations

import os
import signal
from typing import Protocol


class Probe(Protocol):
    """Is told each point that is passed; raises, or never returns, where a test wants it so."""

    def at(self, point: str) -> None:
        """Pass the point, named `<owner>/<what>/<when>`."""
        ...


class NoProbe:
    """Production: every point is passed."""

    def at(self, point: str) -> None:
        del point


class KillProbe:
    """End this process with SIGKILL at the n-th time (from 1) that a point is passed."""

    def __init__(self, point: str, nth: int = 1) -> None:
        self.point, self.left = point, nth

    def at(self, point: str) -> None:
        if point == self.point:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def from_setting(text: str) -> Probe:
    """Read the setting `kill_at`: empty, or `<point>` or `<point>@<n>` for the kill harness."""
    if not text:
        return NoProbe()
    point, _, nth = text.partition("@")
    return KillProbe(point, int(nth or "1"))
