"""Ask every host for its pools, so that new volumes find one with room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.pool_watch import PoolWatch
from mooring.volume.backends import backends

if TYPE_CHECKING:
    from mooring.volume.service import Volume

POOLS: PoolWatch[Volume] = PoolWatch("volume", backends.note_host)
