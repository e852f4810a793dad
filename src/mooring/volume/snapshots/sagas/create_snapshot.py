"""Take a snapshot: an overlay is put on top of the volume's files and takes all that is written.

The files of a volume that nobody has are changed by its host at once. Where a guest has it, the
host prepares the overlay and compute lets the guest switch over (facts/block_storage.md 5.2); the
saga rests meanwhile. The request was answered when the row was written; a failure leaves the
snapshot in `error`, with a message for its owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import field
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.agent_api.snapshots import SnapshotSpec
from mooring.saga.define import Each, Run, Saga, Step, Together, exclusive
from mooring.volume.backends import backends
from mooring.volume.snapshots.sagas import assisted, turns
from mooring.volume.snapshots.story import tell
from mooring.volume.tables import SnapshotRow, VolumeRow

if TYPE_CHECKING:
    from mooring.volume.service import Volume


class CreateSnapshot(assisted.Assisted, frozen=True, kw_only=True):
    """The notes. `attachments` are those whose connection names the active file."""

    attachments: list[str] = field(default_factory=list[str])


async def check_volume(notes: CreateSnapshot, run: Run[Volume]) -> CreateSnapshot:
    """See who has the volume. Raises Conflict while that changes, Invalid with several servers."""
    use = await turns.find_use(run, notes.volume_id)
    return replace(notes, host=use.host, server_id=use.server_id, attachments=list(use.attachments))


def show_error(tx: Session, notes: CreateSnapshot, run: Run[Volume]) -> None:
    """Put the snapshot into `error`; or begin it anew when it was not its turn."""
    row = turns.mine(tx, notes, run)
    if row is None:
        return
    if _is_to_come(tx, row, notes, run):
        anew = CreateSnapshot(snapshot_id=row.id, volume_id=row.volume_id, turns=notes.turns + 1)
        waiting = turns.Waiting(
            saga=CREATE_SNAPSHOT.name, notes=anew, turns=notes.turns, former="error"
        )
        turns.begin_waiting(tx, run, row, waiting)
        return
    row.status, row.saga_id, row.told, row.updated_at = "error", "", "", run.now()


def _is_to_come(tx: Session, row: SnapshotRow, notes: CreateSnapshot, run: Run[Volume]) -> bool:
    """Whether its server was busy, or has left, and there is time to begin anew."""
    age_s = (run.now() - row.created_at).total_seconds()
    if run.error is None or age_s >= run.service.settings.snapshot_deadline_s:
        return False
    is_gone = run.error.kind == "not_found" and bool(notes.server_id)
    return bool(run.error.detail.get("turn")) or (
        is_gone and turns.has_left(tx, row.volume_id, notes.server_id)
    )


async def make_overlay(notes: CreateSnapshot, run: Run[Volume]) -> None:
    """Put the overlay on top; for a guest's volume only make it ready."""
    agent = await backends.agent_of(run, notes.host)
    spec = SnapshotSpec("prepared" if notes.server_id else "taken")
    await agent.put_snapshot(notes.volume_id, notes.snapshot_id, spec, operation=run.operation)


async def drop_overlay(notes: CreateSnapshot, run: Run[Volume]) -> None:
    """Remove the overlay, unless a guest has switched over to it: then it stays part of the disk.

    The snapshot is in `error` then, and deleting it merges the files.
    """
    agent, names = await backends.agent_of(run, notes.host), (notes.volume_id, notes.snapshot_id)
    known = await agent.show_snapshot(*names)
    if notes.server_id and known is not None and known.state == "taken":
        return
    # Compute was not asked, or has said that the guest has left it: else it was kept.
    await agent.delete_snapshot(*names, released=True, operation=run.operation)


async def switch_guest(notes: CreateSnapshot, run: Run[Volume]) -> Together | None:
    """Let compute switch the guest over. Raises Conflict if it has not."""
    if not notes.server_id:
        return None
    question = assisted.Question(
        ask=lambda: _ask(notes, run),
        is_done=lambda told: _is_taken(notes, run, told.has_switched),
        deadline_s=run.service.settings.snapshot_deadline_s,
    )
    await assisted.await_compute(run, notes, question)
    return Together(lambda tx: assisted.accept(tx, notes.snapshot_id))


async def _ask(notes: CreateSnapshot, run: Run[Volume]) -> None:
    agent = await backends.agent_of(run, notes.host)
    known = await agent.show_snapshot(notes.volume_id, notes.snapshot_id)
    if known is None or known.held == "overlay":
        return
    await turns.ask(
        run.service.compute.create_assisted_snapshot(
            None, notes.volume_id, notes.snapshot_id, known.file, operation=run.operation
        )
    )


async def _is_taken(notes: CreateSnapshot, run: Run[Volume], judge: assisted.Judge) -> bool:
    agent = await backends.agent_of(run, notes.host)
    known = await agent.show_snapshot(notes.volume_id, notes.snapshot_id)
    if known is None:
        return False
    return known.state == "taken" or judge(known)


async def settle_guest(notes: CreateSnapshot, run: Run[Volume]) -> None:
    """See that compute leaves the guest alone, and keep the overlay if the guest has it by now.

    It is kept, too, where nobody can tell: an empty overlay shows what lies below it, and one that
    is gone takes with it what a guest wrote.
    """
    if not notes.server_id:
        return
    told = await assisted.give_up(run, notes.snapshot_id, run.operation)
    told.is_last |= assisted.was_refused(notes, run)
    if await _is_taken(notes, run, told.may_have_switched):
        await keep_overlay(notes, run)


async def keep_overlay(notes: CreateSnapshot, run: Run[Volume]) -> None:
    """See that all who connect the volume get the overlay, which its guest writes to."""
    if not notes.server_id:
        return
    agent = await backends.agent_of(run, notes.host)
    operation, spec = run.operation.again(), SnapshotSpec("taken")
    await agent.put_snapshot(notes.volume_id, notes.snapshot_id, spec, operation=operation)
    for attachment_id in notes.attachments:
        sealed = await assisted.renew_connection(run, agent, notes.volume_id, attachment_id)
        if sealed is not None:
            await assisted.keep_renewed(run, attachment_id, sealed)


async def record_overlay(notes: CreateSnapshot, run: Run[Volume]) -> None:
    """Let the volume's host know that the overlay is the active file."""
    if notes.server_id:
        agent = await backends.agent_of(run, notes.host)
        spec = SnapshotSpec("taken")
        await agent.put_snapshot(notes.volume_id, notes.snapshot_id, spec, operation=run.operation)


async def renew_connection(
    notes: CreateSnapshot, attachment_id: str, run: Run[Volume]
) -> Together | None:
    """Let an attachment's connection name the new active file."""
    agent = await backends.agent_of(run, notes.host)
    sealed = await assisted.renew_connection(run, agent, notes.volume_id, attachment_id)
    if sealed is None:
        return None
    return Together(lambda tx: assisted.keep_connection(tx, attachment_id, sealed))


def show_available(tx: Session, notes: CreateSnapshot, run: Run[Volume]) -> None:
    """Tell that the snapshot is there, of what the volume has now.

    While it waited for its turn the volume may have got another image.
    """
    row = turns.mine(tx, notes, run)
    if row is not None:
        volume = tx.get_one(VolumeRow, row.volume_id)
        row.bootable, row.image_metadata = volume.bootable, volume.image_metadata
        row.status, row.progress, row.saga_id, row.told = "available", 100, "", ""
        row.updated_at = run.now()


CREATE_SNAPSHOT = Saga(
    "volume.create_snapshot",
    CreateSnapshot,
    Step("check_volume", check_volume, undo=show_error),
    Step("make_overlay", make_overlay, undo=drop_overlay),
    Step("switch_guest", switch_guest, undo=settle_guest),
    Step("record_overlay", record_overlay),
    Each(
        "connections", lambda notes: notes.attachments, Step("renew_connection", renew_connection)
    ),
    Step("show_available", show_available),
    locks=lambda notes: (exclusive(f"volume:{notes.volume_id}"),),
    mode="wait",
    visible_after="show_available",
    pivot="record_overlay",
    failed_end=[Step("keep_overlay", keep_overlay), Step("show_late_error", show_error)],
    residue=("snapshots", "messages"),
    story=tell(lambda _: ("create_snapshot", "snapshot")),
)
