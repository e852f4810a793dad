"""Disks that are taken from running guests: what both hypervisors keep and say of it.

A guest is asked for a disk, and the request stays with it: what was refused for want of an answer
may come true later, when the guest hears of it or boots anew. Then the disk is given back, for the
definition has it, and whoever asked was told that it is attached as before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager

from mooring.errors import Conflict

LET_GO = "disk_let_go"
"""News for the agent alone: a guest has let go of a disk, or may have, that it is to have."""


class Unplugging:
    """The disks of one host that are being taken from their guests."""

    def __init__(self) -> None:
        self._at_work: Counter[tuple[str, str]] = Counter()

    @contextmanager
    def at_work(self, server_id: str, volume_id: str) -> Generator[None]:
        """Count a disk as being taken away, for as long as this lasts."""
        disk = (server_id, volume_id)
        self._at_work[disk] += 1
        try:
            yield
        finally:
            self._at_work[disk] -= 1
            if not self._at_work[disk]:
                del self._at_work[disk]

    def takes(self, server_id: str, volume_id: str) -> bool:
        """Return whether a disk is being taken away: it is gone from the guest first."""
        return (server_id, volume_id) in self._at_work


def keeps_disk(server_id: str, volume_id: str) -> Conflict:
    """Return the refusal of a guest that was asked for a disk and does not let it go."""
    return Conflict(
        f"The guest of server {server_id} keeps volume {volume_id}; it is attached as before. Let "
        "go of it inside the guest, or stop the server, and try again."
    )


def stands_still(server_id: str, volume_id: str) -> Conflict:
    """Return the refusal to ask a guest that hears nothing, and would let go once it goes on."""
    return Conflict(
        f"The guest of server {server_id} is paused and lets go of nothing: volume {volume_id} is "
        "attached as before. Unpause the server, or stop it, and try again."
    )
