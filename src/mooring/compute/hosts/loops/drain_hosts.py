"""Go on emptying the hosts that are being drained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.compute.hosts import draining

if TYPE_CHECKING:
    from mooring.compute.service import Compute


async def run(compute: Compute) -> None:
    """Look again and again, until cancelled."""
    while True:
        await draining.advance_all(compute)
        await compute.clock.sleep(compute.settings.drain_poll_s)
