"""Ask every host for its pools of shares, so that new shares find one with room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.pool_watch import PoolWatch
from mooring.share.services import pools

if TYPE_CHECKING:
    from mooring.share.service import Share

POOLS: PoolWatch[Share] = PoolWatch("share", pools.note_host)
