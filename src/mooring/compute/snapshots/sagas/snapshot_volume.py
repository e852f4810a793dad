"""Let a guest write to an overlay, for a snapshot of the volume service (block_storage.md 5.2).

What cannot be done is taken back before the volume service hears of it. Once it was told that the
guest writes to the overlay, it may go on with that at any moment, so from there on it decides: the
guest goes back only when the snapshot was given up.

A host that is lost may have switched its guest or not: then the overlay is kept, because without a
write in it, it reads as the file below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from mooring.compute.hosts import guests
from mooring.compute.snapshots import snapshot_calls
from mooring.compute.volumes import devices
from mooring.errors import Conflict
from mooring.saga.define import Run, Saga, Step, exclusive, shared

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.compute.service import Compute


class SnapshotVolume(Struct, frozen=True, kw_only=True):
    """The notes.

    kept      the overlay stays, although this operation failed
    returned  the guest writes to its former file again
    """

    server_id: str
    volume_id: str
    block_device_id: str
    host: str
    snapshot_id: str
    new_file: str
    kept: bool = False
    returned: bool = False


def check_device(tx: Session, notes: SnapshotVolume, run: Run[Compute]) -> None:
    """See that the server has the volume."""
    del run
    require_attached(tx, notes.block_device_id, notes.volume_id, notes.server_id)


def require_attached(tx: Session, block_device_id: str, volume_id: str, server_id: str) -> None:
    """Raise Conflict unless a server still has a volume by this block device."""
    row = devices.find(tx, block_device_id)
    if row is None or row.volume_id != volume_id or row.state != "attached":
        raise Conflict(
            f"Server {server_id} no longer has volume {volume_id} as it was. Nothing was changed; "
            "look at the volume again."
        )


async def report_failure(notes: SnapshotVolume, run: Run[Compute]) -> None:
    """Tell the volume service how it ended, until it has taken that."""
    status = "creating" if notes.kept else "error"
    await snapshot_calls.give_up(run, notes.snapshot_id, status)


async def snapshot_disk(notes: SnapshotVolume, run: Run[Compute]) -> None:
    """Let the guest write to the overlay."""
    await guests.ask(
        run,
        notes.host,
        lambda agent: agent.snapshot_disk(
            notes.server_id,
            notes.volume_id,
            notes.snapshot_id,
            notes.new_file,
            operation=run.operation,
        ),
    )


async def take_back_snapshot(notes: SnapshotVolume, run: Run[Compute]) -> SnapshotVolume | None:
    """Let the guest write to its former file again, unless the overlay is to stay."""
    if notes.kept:
        return None
    if await guests.is_lost(run, notes.host):
        return replace(notes, kept=True)
    await guests.ask(
        run,
        notes.host,
        lambda agent: agent.take_back_snapshot(
            notes.server_id,
            notes.volume_id,
            notes.snapshot_id,
            notes.new_file,
            operation=run.operation,
        ),
    )
    return replace(notes, returned=True)


async def report_created(notes: SnapshotVolume, run: Run[Compute]) -> None:
    """Tell the volume service that writes go to the overlay."""
    await snapshot_calls.report_created(run, notes.snapshot_id)


async def await_recorded(notes: SnapshotVolume, run: Run[Compute]) -> None:
    """Keep the locks until whoever connects the volume gets the overlay."""
    await snapshot_calls.wait_until_recorded(run, notes.snapshot_id)


async def withdraw_report(notes: SnapshotVolume, run: Run[Compute]) -> SnapshotVolume | None:
    """Take the report back, before the guest goes back; one that was acted upon stands."""
    if await snapshot_calls.give_up(run, notes.snapshot_id, "error"):
        return None
    is_taken = await snapshot_calls.is_taken(run, notes.snapshot_id)
    return replace(notes, kept=True) if is_taken else None


async def return_to_former_file(notes: SnapshotVolume, run: Run[Compute]) -> SnapshotVolume | None:
    """Let the guest write to its former file again, unless the snapshot stands."""
    return await take_back_snapshot(notes, run)


async def tell_failure(notes: SnapshotVolume, run: Run[Compute]) -> None:
    """Tell the volume service that nobody switches the guest any more.

    A guest that may have written to the overlay keeps it: the overlay reads as the file below as
    long as nothing was written, and somebody else has the guest by now.
    """
    await snapshot_calls.give_up(run, notes.snapshot_id, "error" if notes.returned else "creating")


SNAPSHOT_VOLUME = Saga(
    "compute.snapshot_volume",
    SnapshotVolume,
    Step("check_device", check_device, undo=report_failure),
    Step("snapshot_disk", snapshot_disk, undo=take_back_snapshot),
    Step("report_created", report_created),
    Step("await_recorded", await_recorded),
    locks=lambda notes: [
        shared(f"server:{notes.server_id}"),
        exclusive(f"volume:{notes.volume_id}"),
    ],
    # The volume service shows the snapshot before `await_recorded` comes to look again.
    visible_after="report_created",
    pivot="report_created",
    failed_end=(
        Step("withdraw_report", withdraw_report),
        Step("return_to_former_file", return_to_former_file),
    ),
    owes=(Step("tell_failure", tell_failure, may_be_forgone=True),),
    residue=("snapshots",),
)
