"""Fence hosts that are silent for long, if the operator wants that (`evacuate_after_s`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from mooring.compute.hosts import fencing
from mooring.compute.hosts.silence import Silence
from mooring.limits import FENCE_POLL_S

if TYPE_CHECKING:
    from mooring.compute.service import Compute

log = structlog.get_logger()


async def run(compute: Compute) -> None:
    """Look again and again, until cancelled. What was silent before this began does not count."""
    if compute.settings.evacuate_after_s and not compute.fence.is_there:
        log.error("no silent host is fenced: evacuate_after_s is set, and fence_command is not")
    silence = Silence(compute.clock.monotonic())
    while True:
        await compute.clock.sleep(FENCE_POLL_S)
        await fencing.fence_silent(compute, silence)
