"""Take a snapshot of a volume that several servers may have: its host copies its file.

The file stays as it is, as no guest shares an overlay, so nothing is asked of compute, whoever has
the volume: the copy is of one moment, or it is refused by the host. The request was answered when
the row was written; a failure leaves the snapshot in `error`, with a message that says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.agent_api.snapshots import SnapshotSpec
from mooring.saga.define import Run, Saga, Step, exclusive
from mooring.volume.backends import backends
from mooring.volume.snapshots.sagas import turns
from mooring.volume.snapshots.story import tell
from mooring.volume.tables import VolumeRow
from mooring.volume.volumes import filling

if TYPE_CHECKING:
    from mooring.volume.service import Volume


class CopySnapshot(Struct, frozen=True, kw_only=True):
    """The notes. `host` has the storage; "" before anybody looked."""

    snapshot_id: str
    volume_id: str
    host: str = ""


def find_host(tx: Session, notes: CopySnapshot, run: Run[Volume]) -> CopySnapshot:
    """See where the volume lies, now that it stays there."""
    del run
    return replace(notes, host=backends.host_of(tx, notes.volume_id))


def show_error(tx: Session, notes: CopySnapshot, run: Run[Volume]) -> None:
    """Put the snapshot into `error`."""
    row = turns.mine(tx, notes, run)
    if row is not None:
        row.status, row.saga_id, row.updated_at = "error", "", run.now()


async def copy_file(notes: CopySnapshot, run: Run[Volume]) -> None:
    """Have the host copy the file; a copy that was killed starts again."""
    agent, spec = await backends.agent_of(run, notes.host), SnapshotSpec("copied")
    names = notes.volume_id, notes.snapshot_id
    copying = agent.put_snapshot(*names, spec, operation=run.operation)
    await filling.follow(run, agent, notes.volume_id, copying)


async def drop_copy(notes: CopySnapshot, run: Run[Volume]) -> None:
    """Remove the copy, whole or not."""
    agent = await backends.agent_of(run, notes.host)
    await agent.delete_snapshot(notes.volume_id, notes.snapshot_id, operation=run.operation)


def show_available(tx: Session, notes: CopySnapshot, run: Run[Volume]) -> None:
    """Tell that the snapshot is there, of what the volume has now."""
    row = turns.mine(tx, notes, run)
    if row is not None:
        volume = tx.get_one(VolumeRow, row.volume_id)
        row.bootable, row.image_metadata = volume.bootable, volume.image_metadata
        row.status, row.progress, row.saga_id = "available", 100, ""
        row.updated_at = run.now()


COPY_SNAPSHOT = Saga(
    "volume.copy_snapshot",
    CopySnapshot,
    Step("find_host", find_host, undo=show_error),
    Step("copy_file", copy_file, undo=drop_copy, deadline_s=3600.0),
    Step("show_available", show_available),
    locks=lambda notes: (exclusive(f"volume:{notes.volume_id}"),),
    mode="wait",
    visible_after="show_available",
    pivot="show_available",
    residue=("snapshots", "messages"),
    story=tell(lambda _: ("create_snapshot", "snapshot"), gives_reason=True),
)
