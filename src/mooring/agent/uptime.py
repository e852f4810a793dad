"""How long a machine runs, in the one line that `uptime` prints and clients of hypervisors show.

Source: facts/compute.md 10.1 (the `uptime` of a hypervisor is text), and proc(5).
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from pathlib import Path

_SINCE_BOOT = Path("/proc/uptime")


def read(now: datetime, file: Path = _SINCE_BOOT) -> str:
    """Return the time of day, how long the machine runs and its load; "" where nothing tells it."""
    try:
        seconds = float(file.read_text("ascii").split()[0])
        loads = os.getloadavg()
    except (OSError, ValueError, IndexError):
        return ""
    return f" {now:%H:%M:%S} up {_span(seconds)},  load average: " + ", ".join(
        f"{load:.2f}" for load in loads
    )


def _span(seconds: float) -> str:
    span = timedelta(seconds=seconds)
    hours, minutes = divmod(span.seconds // 60, 60)
    days = f"{span.days} day{'s' if span.days != 1 else ''}, " if span.days else ""
    return f"{days}{hours}:{minutes:02}" if hours else f"{days}{minutes} min"
