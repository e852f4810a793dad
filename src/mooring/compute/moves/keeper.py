"""Which of two hosts has a guest that was on its way from one to the other.

The control plane may have died at any moment, and each host too, so nothing that was written down
tells it: both are asked, once nothing is on its way any more (design, live migration).
"""

from __future__ import annotations

from typing import Literal

from mooring.agent_api.servers import GuestState

Seen = GuestState | Literal["absent", "lost"]
"""What a host holds of a guest; a host that was forced down or removed is lost, with its guests."""
Side = Literal["source", "destination", "nobody"]
_OFF = frozenset({"stopped", "crashed"})


def find_keeper(source: Seen, destination: Seen) -> Side:
    """Return on whose side the guest is; `nobody` when neither host has it any more.

    Where one runs, the other one's is to be ended, whatever it looks like. Where both stand still,
    the destination has all of it, and the source was about to be told so.
    """
    for state in ("running", "paused"):
        if destination == state:
            return "destination"
        if source == state:
            return "source"
    # A definition is at the destination once the guest had arrived: it ended by itself since.
    if destination in _OFF or (destination == "lost" and source not in _OFF):
        return "destination"
    return "source" if source in _OFF or source == "lost" else "nobody"
