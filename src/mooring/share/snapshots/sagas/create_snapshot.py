"""Take a snapshot of a share, while its clients use it.

The request was answered when the row was written; a failure leaves the snapshot in `error`, with a
message for its owner, and nothing in the storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.errors import Conflict
from mooring.saga.define import Run, Saga, Step, exclusive
from mooring.share.services import pools
from mooring.share.snapshots.story import tell
from mooring.share.tables import ShareRow, SnapshotRow

if TYPE_CHECKING:
    from mooring.share.service import Share


class CreateSnapshot(Struct, frozen=True, kw_only=True):
    """The notes. `pool` is where the share lies; empty before that was looked up."""

    share_id: str
    snapshot_id: str
    pool: str = ""


async def find_share(notes: CreateSnapshot, run: Run[Share]) -> CreateSnapshot:
    """Look where the share lies. Raises Conflict when it is to be deleted by now."""
    return replace(notes, pool=await run.service.store.read(lambda tx: _find_pool(tx, notes)))


def _find_pool(tx: Session, notes: CreateSnapshot) -> str:
    share = tx.get(ShareRow, notes.share_id)
    if share is None or share.pool is None or share.status == "deleting":
        raise Conflict(f"Share {notes.share_id} is being deleted. No snapshot was taken.")
    return share.pool


def show_error(tx: Session, notes: CreateSnapshot, run: Run[Share]) -> None:
    """Put the snapshot into `error`: there is none."""
    _show(tx, notes, run, "error")


async def take_snapshot(notes: CreateSnapshot, run: Run[Share]) -> None:
    """Have the storage keep what is in the share now."""
    agent = await pools.agent_of(run, notes.pool)
    names = notes.share_id, notes.snapshot_id, pools.split(notes.pool)[2]
    await agent.put_share_snapshot(*names, operation=run.operation)


async def remove_snapshot(notes: CreateSnapshot, run: Run[Share]) -> None:
    """Remove what was taken."""
    agent = await pools.agent_of(run, notes.pool)
    names = notes.share_id, notes.snapshot_id, pools.split(notes.pool)[2]
    await agent.delete_share_snapshot(*names, operation=run.operation)


def show_available(tx: Session, notes: CreateSnapshot, run: Run[Share]) -> None:
    """Tell that the snapshot is there."""
    _show(tx, notes, run, "available")


def _show(tx: Session, notes: CreateSnapshot, run: Run[Share], status: str) -> None:
    row = tx.get(SnapshotRow, notes.snapshot_id)
    if row is not None:
        row.status, row.saga_id, row.updated_at = status, "", run.now()


CREATE_SNAPSHOT = Saga(
    "share.create_snapshot",
    CreateSnapshot,
    Step("find_share", find_share, undo=show_error),
    Step("take_snapshot", take_snapshot, undo=remove_snapshot),
    Step("show_available", show_available),
    locks=lambda notes: (exclusive(f"share:{notes.share_id}"),),
    mode="wait",
    visible_after="show_available",
    residue=("share_snapshots", "messages"),
    story=tell("create"),
)
