"""Delete a snapshot of a share; the share keeps all that it holds.

There is no way back from it: what the storage refuses for good leaves it in `error_deleting`, and
deleting may be asked for again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.saga.define import Run, Saga, Step, exclusive
from mooring.share.services import pools
from mooring.share.snapshots.story import tell
from mooring.share.tables import ShareRow, SnapshotRow

if TYPE_CHECKING:
    from mooring.share.service import Share


class DeleteSnapshot(Struct, frozen=True, kw_only=True):
    """The notes. `pool` is where the share lies; empty before that was looked up."""

    share_id: str
    snapshot_id: str
    pool: str = ""


def find_share(tx: Session, notes: DeleteSnapshot, run: Run[Share]) -> DeleteSnapshot | None:
    """Look where the share lies."""
    share = tx.get(ShareRow, notes.share_id)
    return None if share is None or share.pool is None else replace(notes, pool=share.pool)


async def remove_snapshot(notes: DeleteSnapshot, run: Run[Share]) -> None:
    """Have the storage forget it; one that is not there is fine."""
    if notes.pool:
        agent = await pools.agent_of(run, notes.pool)
        names = notes.share_id, notes.snapshot_id, pools.split(notes.pool)[2]
        await agent.delete_share_snapshot(*names, operation=run.operation)


def forget_snapshot(tx: Session, notes: DeleteSnapshot, run: Run[Share]) -> None:
    """Delete the row; the quota has it back."""
    row = tx.get(SnapshotRow, notes.snapshot_id)
    if row is not None:
        tx.delete(row)


def show_error(tx: Session, notes: DeleteSnapshot, run: Run[Share]) -> None:
    """Tell that the storage keeps it."""
    row = tx.get(SnapshotRow, notes.snapshot_id)
    if row is not None:
        row.status, row.saga_id, row.updated_at = "error_deleting", "", run.now()


DELETE_SNAPSHOT = Saga(
    "share.delete_snapshot",
    DeleteSnapshot,
    # Undone only when it gives up waiting for whoever is at work on the share.
    Step("find_share", find_share, undo=show_error),
    Step("remove_snapshot", remove_snapshot, may_be_forgone=True),
    Step("forget_snapshot", forget_snapshot),
    locks=lambda notes: (exclusive(f"share:{notes.share_id}"),),
    mode="wait",
    pivot="find_share",
    failed_end=[Step("show_error", show_error)],
    residue=("share_snapshots", "messages"),
    story=tell("delete"),
)
