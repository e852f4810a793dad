"""What compute tells the volume service of a snapshot, so that neither waits for ever."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from mooring.clients.snapshots import Snapshot, SnapshotClient, Told
from mooring.compute.hosts import guests
from mooring.errors import Conflict, Invalid, MooringError, NotFound
from mooring.limits import (
    COMPUTE_SNAPSHOT_POLL_S,
    COMPUTE_SNAPSHOT_RECORD_S,
)
from mooring.saga.define import Park, look_again_s
from mooring.saga.journal import is_unavailable

if TYPE_CHECKING:
    from mooring.compute.service import Compute
    from mooring.saga.define import Run

_FIRST_LOOK_S = 0.5


async def report_created(run: Run[Compute], snapshot_id: str) -> None:
    """Say that the guest writes to its new file. Raises Conflict when nobody wants it any more.

    Said twice to a volume service that knows no operations, the second may find the snapshot
    available: that was our doing.
    """
    try:
        await _tell(run, snapshot_id, "creating")
    except (Conflict, Invalid, NotFound) as error:
        if is_unavailable(error):
            raise
        if not await is_taken(run, snapshot_id):
            raise _given_up(snapshot_id, str(error)) from error


async def is_taken(run: Run[Compute], snapshot_id: str) -> bool:
    """Whether the volume service goes on with the new file, come what may."""
    found = await _find(run, snapshot_id)
    return found is not None and found.is_accepted


def pause_s(run: Run[Compute]) -> float:
    """Return how long to rest before the next look at a snapshot: most are taken within seconds."""
    return look_again_s(run, _FIRST_LOOK_S, COMPUTE_SNAPSHOT_POLL_S)


async def wait_until_recorded(run: Run[Compute], snapshot_id: str) -> None:
    """Rest until the volume service has noted which file is written to.

    Until then nobody may connect the volume anew: it would get the former file. Raises Conflict
    when the volume service gave the snapshot up, or the request for it, which it does while it
    shows the snapshot as it was: it waits for the end of this operation.
    """
    found = await _find(run, snapshot_id)
    is_open = found is not None and found.status == "creating"
    if found is not None and is_open and (found.is_accepted or not run.given_up):
        # What was accepted is recorded, however long its host stays away.
        patience_s = math.inf if found.is_accepted else COMPUTE_SNAPSHOT_RECORD_S
        raise Park(seconds=pause_s(run), timeout_s=patience_s)
    if found is None or not found.is_accepted:
        raise _given_up(snapshot_id)


async def give_up(run: Run[Compute], snapshot_id: str, status: Told) -> bool:
    """Say that it did not work; return whether anybody still waited for that.

    Repeated until the volume service has taken it, or refuses to: then it finds out by itself.
    """
    try:
        await _tell(run, snapshot_id, status, "give_up")
    except MooringError as error:
        if is_unavailable(error):
            raise
        return False
    return True


async def report_deleted(run: Run[Compute], snapshot_id: str) -> None:
    """Say that the files are merged. A snapshot that nobody deletes any more is fine."""
    try:
        await _tell(run, snapshot_id, "deleting")
    except (Conflict, Invalid, NotFound) as error:
        if is_unavailable(error):
            raise


def _given_up(snapshot_id: str, private: str = "") -> Conflict:
    return Conflict(
        f"The volume service gave snapshot {snapshot_id} up; the guest goes back to its former "
        "file.",
        private=private,
    )


async def _find(run: Run[Compute], snapshot_id: str) -> Snapshot | None:
    try:
        return await _client(run).show(None, snapshot_id)
    except NotFound:
        return None


async def _tell(run: Run[Compute], snapshot_id: str, status: Told, what: str = "tell") -> None:
    operation = guests.other(run.operation, what)
    await _client(run).tell(None, snapshot_id, status, operation=operation)


def _client(run: Run[Compute]) -> SnapshotClient:
    return SnapshotClient(run.service.volumes.session)
