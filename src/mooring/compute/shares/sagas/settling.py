"""What becomes of a server's shares when an administrator ends the operation that had them in hand.

What was being attached or detached is in error, and its hosts are kept out; it is detached, and
attached again. What a host was being given or taken for another reason, a start or a deletion, goes
on to be taken by itself. Shares that nobody was at work on stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import structlog

from mooring.compute.shares import doors, folders, mappings, share_places
from mooring.compute.shares.sagas import release_share
from mooring.compute.shares.share_places import GRANTING, LEFT
from mooring.errors import MooringError
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute
    from mooring.compute.shares.folders import Folder
    from mooring.saga.define import Run, Together

T = TypeVar("T")
log = structlog.get_logger()


def break_off(tx: Session, run: Run[Compute], server_id: str) -> list[Folder]:
    """Put what was on its way into error; return where hosts may be let in all the same."""
    left: list[Folder] = []
    for row in mappings.of_server(tx, server_id):
        places = share_places.of_mapping(tx, row.id)
        if row.status in {"attaching", "detaching"}:
            mappings.change(tx, row.id, run.now(), status="error")
            left += [folders.folder_of(row, place.host) for place in places]
            continue
        for place in places:
            if place.state in {GRANTING, *LEFT}:
                # No guest has it there: it is mounted behind the first, unmounted before the other.
                release_share.hand_over(tx, run, folders.folder_of(row, place.host))
    return left


def leave(tx: Session, run: Run[Compute], server_id: str, but: Sequence[Folder]) -> None:
    """Have the hosts of a server whose guest is gone let go of its shares, but of some, later."""
    for folder in folders.everywhere(tx, server_id):
        if folder not in but:
            release_share.hand_over(tx, run, folder)
    mappings.set_status(tx, server_id, ["active"], "inactive", run.now())


async def unmount(run: Run[Compute], folder: Folder) -> Together | None:
    """Unmount a share. What is refused for good stays, until it is detached. Raises Unavailable."""
    return await _unless_refused(folder, folders.unmount(run, folder))


async def revoke(run: Run[Compute], folder: Folder) -> None:
    """Keep a host out of a share. What is refused for good stays, as above. Raises Unavailable."""
    await _unless_refused(folder, doors.revoke(run, folder))


async def _unless_refused(folder: Folder, work: Awaitable[T]) -> T | None:
    try:
        return await work
    except MooringError as error:
        if is_unavailable(error):
            raise
        log.warning("a host kept a share", host=folder.host, share=folder.share_id, why=str(error))
        return None
