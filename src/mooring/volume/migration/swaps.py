"""Compute, which is to let a guest go on with the copy of its volume: asked, and given up.

Source: facts/block_storage.md 5.2, facts/compute.md 4.12, specs 001.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mooring.errors import Conflict, Invalid, MooringError, NotFound, Unavailable
from mooring.fence.operation import Operation
from mooring.saga.define import Park, may_be_repeated
from mooring.saga.journal import is_unavailable
from mooring.volume.migration import copy_rows

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.saga.define import Run
    from mooring.volume.migration.copies import Move
    from mooring.volume.service import Volume

_GONE = 410
_LOOK_S = 60.0


async def ask(run: Run[Volume], server_id: str, volume_id: str, move: Move) -> None:
    """Ask compute to copy the volume under its guest. What it refuses now, it refuses for good.

    So does a compute service that is busy with the server: whoever it is busy for may wait for this
    volume. One that answered and was not heard has reserved the copy.
    """
    if may_be_repeated(run) and await _was_heard(run, volume_id, move):
        return
    try:
        await run.service.compute.swap_volume(
            None, server_id, volume_id, move.copy_id, operation=run.operation
        )
    except (Conflict, Invalid, NotFound) as error:
        # A call of before may have come to its end, though nobody took that down.
        if await _was_heard(run, volume_id, move):
            return
        if isinstance(error, Conflict):
            raise Conflict(error.public, private=error.private) from error
        raise


async def _was_heard(run: Run[Volume], volume_id: str, move: Move) -> bool:
    """Whether compute works on what it was asked before, or has even said how that went."""
    return await run.service.store.read(lambda tx: _is_at_work(tx, volume_id, move))


def _is_at_work(tx: Session, volume_id: str, move: Move) -> bool:
    """Whether compute has reserved the copy, or has even said how it went."""
    is_open = copy_rows.look(tx, volume_id, move) == "open"
    return not is_open or bool(copy_rows.attachments_of(tx, move))


async def wait(run: Run[Volume], server_id: str, volume_id: str, move: Move) -> None:
    """Rest until compute has completed. Raises Conflict when the guest keeps what it had."""
    found = await run.service.store.read(lambda tx: copy_rows.look(tx, volume_id, move))
    if found == "refused":
        raise Conflict(
            f"The compute service did not let server {server_id} go on with the copy of "
            f"volume {volume_id} in {move.moves_to}. The volume is where it was; the server's "
            "actions say why (openstack server event list)."
        )
    if found == "open":
        # A copy takes as long as it takes: compute, or an administrator, ends it.
        signal = copy_rows.signal_of(volume_id)
        raise Park(signal=signal, seconds=_LOOK_S, timeout_s=math.inf)


async def give_up(run: Run[Volume], volume_id: str, move: Move, event: str) -> None:
    """See that compute does nothing more with the copy, whichever of the two the guest has then.

    Raises Unavailable as long as nobody can tell: a real Nova, which cannot be told to give up, may
    work with the copy while that has an attachment.
    """
    made: list[str] | None = []
    if event:
        made = await _bury(run, event)
    if made is not None:
        return
    store = run.service.store
    outcome = await store.read(lambda tx: copy_rows.look(tx, volume_id, move))
    left = await store.read(lambda tx: copy_rows.attachments_of(tx, move))
    if outcome == "open" and left:
        raise Unavailable(
            f"The compute service still has the copy of volume {volume_id}, by attachments "
            f"{', '.join(left)}, and cannot be told to give it up. Wait until it completes the "
            "migration, or end the copy at its host and delete them."
        )


async def _bury(run: Run[Volume], event: str) -> list[str] | None:
    saga, _, step = event.partition(".")
    try:
        return await run.service.compute.session.bury(Operation(saga, step, 1, 0))
    except MooringError as error:
        if error.detail.get("http_status") == _GONE:
            return []
        if is_unavailable(error):
            raise
        raise Unavailable(
            f"Compute refuses ({error.public}) to say whether it still copies the volume. It is "
            "asked again by itself; give this service's user the role `service` there.",
            private=str(error),
        ) from error
