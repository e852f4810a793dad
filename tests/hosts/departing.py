"""A real guest that is on its way to another host, as libvirt itself tells of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.hosts.moving_cloud import MovingCloud
from tests.hosts.real_cloud import HEARS_S, POLL_S

PASSES, STILL_S = 3, 1.0
"""How often QEMU has begun to go through the memory of a guest when its move is in vain, and for
how long one is seen to stand still: QEMU by itself holds one for 0.3 s at most."""
PAUSED = 3
"""Libvirt's word for the state of a guest that stands still."""
LEAVING = 5
"""Libvirt's word for what is done with a guest that is sent to another host."""


class Departing:
    """A guest, and the host that it is to leave."""

    def __init__(self, cloud: MovingCloud, host: str, server_id: str) -> None:
        self._cloud, self._host, self._server_id = cloud, host, server_id

    def is_sent_in_vain(self) -> None:
        """Wait until QEMU has sent all of its memory, and what changed meanwhile, to no end."""
        self._sees(lambda domain: domain.jobStats().get("memory_iteration", 0) >= PASSES)

    def stands_still(self) -> None:
        """Wait until it stands still, and see that it does so while it is on its way."""
        self._sees(_is_still)
        time.sleep(STILL_S)
        with self._cloud.domain(self._host, self._server_id) as domain:
            assert _is_still(domain)
            assert _has_more_to_send(domain.jobStats())

    def _sees(self, holds: Callable[[Any], bool]) -> None:
        until = time.monotonic() + HEARS_S
        with self._cloud.domain(self._host, self._server_id) as domain:
            while not holds(domain):
                assert domain.isActive(), "it has got there by itself"
                assert time.monotonic() < until, domain.jobStats()
                time.sleep(POLL_S)


def _is_still(domain: Any) -> bool:
    return domain.state()[0] == PAUSED


def _has_more_to_send(job: dict[str, int]) -> bool:
    # All of the disk goes before all of the memory; for seconds between them nothing remains.
    return job["operation"] == LEAVING and (job["memory_total"] == 0 or job["memory_remaining"] > 0)
