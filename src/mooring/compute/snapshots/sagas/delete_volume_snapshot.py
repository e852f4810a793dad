"""Merge the files of a volume that a guest uses, for a snapshot that goes (block_storage.md 5.2).

A merge that ends early leaves a disk that reads as before, so there is nothing to take back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring.agent_api import verbs
from mooring.agent_api.overlays import MergeRequest
from mooring.compute.hosts import guests
from mooring.compute.snapshots import snapshot_calls
from mooring.compute.snapshots.sagas.snapshot_volume import require_attached
from mooring.compute.tables import Server
from mooring.limits import COMPUTE_MERGE_TRIES_S
from mooring.saga.define import Run, Saga, Step, exclusive, shared

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.agent_api.client import AgentClient
    from mooring.compute.service import Compute


class DeleteVolumeSnapshot(Struct, frozen=True, kw_only=True):
    """The notes. The files as in `agent_api.overlays.MergeRequest`."""

    server_id: str
    volume_id: str
    block_device_id: str
    host: str
    snapshot_id: str
    file_to_merge: str | None
    merge_target_file: str | None


def check_device(
    tx: Session, notes: DeleteVolumeSnapshot, run: Run[Compute]
) -> DeleteVolumeSnapshot:
    """See that the server has the volume, and where: others may have been at work on it before."""
    del run
    require_attached(tx, notes.block_device_id, notes.volume_id, notes.server_id)
    return replace(notes, host=tx.get_one(Server, notes.server_id).host or notes.host)


async def report_failure(notes: DeleteVolumeSnapshot, run: Run[Compute]) -> None:
    """Tell the volume service that the files are not merged, until it has taken that."""
    await snapshot_calls.give_up(run, notes.snapshot_id, "error_deleting")


async def merge_disk(notes: DeleteVolumeSnapshot, run: Run[Compute]) -> None:
    """Merge the files."""
    merge = MergeRequest(
        file_to_merge=notes.file_to_merge, merge_target_file=notes.merge_target_file
    )
    await guests.ask(
        run,
        notes.host,
        lambda agent: agent.merge_disk(
            notes.server_id, notes.volume_id, notes.snapshot_id, merge, operation=run.operation
        ),
    )


async def stop_merge(notes: DeleteVolumeSnapshot, run: Run[Compute]) -> None:
    """End the merge, and see that a late one does not begin."""

    async def verb(agent: AgentClient) -> None:
        await agent.stop_merge(
            notes.server_id, notes.volume_id, notes.snapshot_id, operation=run.operation
        )

    path = verbs.STOP_MERGE.target(notes.server_id, notes.volume_id, notes.snapshot_id)
    await guests.take_back(run, notes.host, path, verb)


async def report_late_failure(notes: DeleteVolumeSnapshot, run: Run[Compute]) -> None:
    """Tell the volume service to ask again, where it would not hear that it went well."""
    await snapshot_calls.give_up(run, notes.snapshot_id, "error_deleting")


async def report_deleted(notes: DeleteVolumeSnapshot, run: Run[Compute]) -> None:
    """Tell the volume service that nobody needs the file of the snapshot any more."""
    await snapshot_calls.report_deleted(run, notes.snapshot_id)


DELETE_VOLUME_SNAPSHOT = Saga(
    "compute.delete_volume_snapshot",
    DeleteVolumeSnapshot,
    Step("check_device", check_device, undo=report_failure),
    Step("merge_disk", merge_disk, undo=stop_merge, deadline_s=COMPUTE_MERGE_TRIES_S),
    Step("report_deleted", report_deleted),
    locks=lambda notes: [
        shared(f"server:{notes.server_id}"),
        exclusive(f"volume:{notes.volume_id}"),
    ],
    mode="wait",
    pivot="report_deleted",
    failed_end=(Step("report_late_failure", report_late_failure),),
    owes=(Step("tell_failure", report_failure, may_be_forgone=True),),
    residue=("snapshots",),
)
