"""Delete a snapshot: its files are merged, and the volume keeps all that it holds.

The host merges the files of a volume that nobody has. Where a guest has it, its hypervisor does,
asked through compute (facts/block_storage.md 5.2), and the host records the outcome. What cannot be
done now leaves the snapshot as it was. A merge that has begun cannot be taken back: what went wrong
half-way leaves `error_deleting`, and deleting may be asked for again; the volume's data is whole in
any case. A copy is removed, whoever has the volume.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.agent_api.snapshots import Merge, SnapshotSpec
from mooring.saga.define import Run, Saga, Step, exclusive
from mooring.volume.backends import backends
from mooring.volume.snapshots.sagas import assisted, turns
from mooring.volume.snapshots.story import tell
from mooring.volume.tables import SnapshotRow

if TYPE_CHECKING:
    from mooring.volume.service import Volume


class DeleteSnapshot(assisted.Assisted, frozen=True, kw_only=True):
    """The notes. `former` is the status to go back to while nothing was done."""

    former: str
    merge: Merge | None = None
    """What its hypervisor is to do; None when there is nothing to do."""


async def check_volume(notes: DeleteSnapshot, run: Run[Volume]) -> DeleteSnapshot:
    """See who has the volume. Raises Conflict while that changes, Invalid with several servers."""
    use = await turns.find_use(run, notes.volume_id)
    return replace(notes, host=use.host, server_id=use.server_id)


def show_status(tx: Session, notes: DeleteSnapshot, run: Run[Volume]) -> None:
    """Give the snapshot its status back: nothing was done. Or begin anew, after a rest."""
    row = turns.mine(tx, notes, run)
    if row is None:
        return
    if turns.comes_later(run.error):
        _begin_anew(tx, row, notes, run, notes.former)
    else:
        _show(tx, row, notes.former, run)


async def plan_merge(notes: DeleteSnapshot, run: Run[Volume]) -> DeleteSnapshot | None:
    """Look what has to be merged. An overlay that a guest took late counts as taken."""
    if not notes.server_id:
        return None
    agent = await backends.agent_of(run, notes.host)
    known = await agent.show_snapshot(notes.volume_id, notes.snapshot_id)
    if known is not None and known.state == "prepared" and known.held == "overlay":
        known = await agent.put_snapshot(
            notes.volume_id, notes.snapshot_id, SnapshotSpec("taken"), operation=run.operation
        )
    return None if known is None else replace(notes, merge=known.merge)


async def merge_by_guest(notes: DeleteSnapshot, run: Run[Volume]) -> None:
    """Let compute have the hypervisor merge. Raises Conflict if it has not."""
    merge = notes.merge
    if merge is not None:
        question = assisted.Question(
            ask=lambda: _ask(notes, merge, run),
            is_done=lambda told: _has_merged(notes, run, told),
            deadline_s=run.service.settings.merge_deadline_s,
        )
        await assisted.await_compute(run, notes, question)


async def _ask(notes: DeleteSnapshot, merge: Merge, run: Run[Volume]) -> None:
    asking = run.service.compute.delete_assisted_snapshot(
        None,
        notes.volume_id,
        notes.snapshot_id,
        (merge.file_to_merge, merge.merge_target_file),
        operation=run.operation,
    )
    await turns.ask(asking)


async def _has_merged(notes: DeleteSnapshot, run: Run[Volume], told: assisted.Told) -> bool:
    # Until compute says that its part is over, or its time is, the files are its to change.
    is_over = told.done or told.failed or run.now().timestamp() >= notes.give_up_at
    return is_over and await _is_merged(notes, run, told)


async def _is_merged(notes: DeleteSnapshot, run: Run[Volume], told: assisted.Told) -> bool:
    agent = await backends.agent_of(run, notes.host)
    known = await agent.show_snapshot(notes.volume_id, notes.snapshot_id)
    return assisted.is_merged(known, told)


async def settle_guest(notes: DeleteSnapshot, run: Run[Volume]) -> None:
    """See that compute leaves the guest alone, and record what it has merged by now."""
    if notes.merge is None:
        return
    told = await assisted.give_up(run, notes.snapshot_id, run.operation)
    if await _is_merged(notes, run, told):
        agent = await backends.agent_of(run, notes.host)
        operation = run.operation
        await agent.record_merge(notes.volume_id, notes.snapshot_id, operation=operation)


async def remove_files(notes: DeleteSnapshot, run: Run[Volume]) -> None:
    """Merge the files, or record that the hypervisor has, and remove the one nobody needs."""
    agent, names = await backends.agent_of(run, notes.host), (notes.volume_id, notes.snapshot_id)
    if notes.merge is not None:
        await agent.record_merge(*names, operation=run.operation)
    else:
        await agent.delete_snapshot(*names, operation=run.operation)


def forget_snapshot(tx: Session, notes: DeleteSnapshot, run: Run[Volume]) -> None:
    """Delete the row; the quota has it back."""
    row = tx.get(SnapshotRow, notes.snapshot_id)
    if row is not None:
        tx.delete(row)


def show_end(tx: Session, notes: DeleteSnapshot, run: Run[Volume]) -> None:
    """Tell that the files were not merged: a snapshot that was not touched is as good as before."""
    row = turns.mine(tx, notes, run)
    if row is None:
        return
    untouched = notes.merge is not None and not notes.give_up_at
    status = notes.former if untouched else "error_deleting"
    if turns.comes_later(run.error) or turns.has_left(tx, notes.volume_id, notes.server_id):
        _begin_anew(tx, row, notes, run, status)
    else:
        _show(tx, row, status, run)


def _show(tx: Session, row: SnapshotRow, status: str, run: Run[Volume]) -> None:
    row.status, row.saga_id, row.told, row.updated_at = status, "", "", run.now()
    row.progress = 100 if status == "available" else row.progress


def _begin_anew(
    tx: Session, row: SnapshotRow, notes: DeleteSnapshot, run: Run[Volume], former: str
) -> None:
    """Go on with what was accepted after a rest: its server was busy, or is leaving."""
    anew = DeleteSnapshot(
        snapshot_id=row.id,
        volume_id=row.volume_id,
        former=notes.former,
        turns=notes.turns + 1,
    )
    waiting = turns.Waiting(saga=DELETE_SNAPSHOT.name, notes=anew, turns=notes.turns, former=former)
    turns.begin_waiting(tx, run, row, waiting)


DELETE_SNAPSHOT = Saga(
    "volume.delete_snapshot",
    DeleteSnapshot,
    Step("check_volume", check_volume, undo=show_status),
    Step("plan_merge", plan_merge),
    Step("merge_by_guest", merge_by_guest),
    Step("remove_files", remove_files, deadline_s=3600.0),
    Step("forget_snapshot", forget_snapshot),
    locks=lambda notes: (exclusive(f"volume:{notes.volume_id}"),),
    mode="wait",
    pivot="merge_by_guest",
    failed_end=[Step("settle_guest", settle_guest), Step("show_end", show_end)],
    residue=("snapshots", "messages"),
    story=tell(lambda _: ("delete_snapshot", "unknown")),
)
