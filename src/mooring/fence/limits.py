"""Limits of what a fence remembers, in a service and on a host, beside `FENCE_KEEP_S`."""

from __future__ import annotations

FENCE_ROWS = 250_000
"""Marks of each kind beyond which a fence forgets the oldest, some 150 bytes each, earlier."""

FENCE_LEAST_S = 86400.0
"""But none before this: a process that slept for hours may wake up and send what it was about to.
"""

FENCE_AT_ONCE = 100
"""How many marks a host's fence forgets in one transaction: verbs wait for it."""

FENCE_SWEEP_S = 600.0
"""How often a host's fence forgets what it need not know any more."""
