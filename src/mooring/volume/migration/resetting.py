"""What a reset of a volume's status makes of a migration under a guest that it has absorbed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.saga.define import Together
from mooring.volume.migration import copies, copy_rows, swaps

if TYPE_CHECKING:
    from mooring.saga.define import Run
    from mooring.volume.migration.copies import Move
    from mooring.volume.service import Volume


async def settle(run: Run[Volume], volume_id: str, move: Move, event: str) -> Together | None:
    """See which of the two the guest has, once compute leaves them alone.

    Returns None when that is the copy, with which the volume is still to arrive; else the copy is
    removed, and what is returned forgets it. Raises Unavailable.
    """
    await swaps.give_up(run, volume_id, move, event)
    now = run.now()
    if await run.service.store.write(lambda tx: copy_rows.close(tx, volume_id, move, now)):
        return None
    await copies.remove(run, move)
    return Together(lambda tx: copy_rows.come_back(tx, volume_id, move, now))
