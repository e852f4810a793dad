"""Delete a volume: end what exports it, remove it from its pool, forget it.

Once it is being deleted there is no way back: what the storage refuses for good leaves it in
`error_deleting`, and deleting may be asked for again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.saga.define import Each, Lock, Mode, Run, Saga, Step, exclusive
from mooring.volume.backends import backends
from mooring.volume.extend import growing
from mooring.volume.migration import copies
from mooring.volume.migration.copies import Move
from mooring.volume.tables import VolumeRow
from mooring.volume.volumes import notices, statuses
from mooring.volume.volumes.story import tell

if TYPE_CHECKING:
    from mooring.volume.service import Volume


class DeleteVolume(Struct, frozen=True, kw_only=True):
    """The notes. `exports` are the ids under which the volume may still be exported."""

    volume_id: str
    backend: str = ""
    exports: list[str] = []
    event: str = ""
    """The operation under which compute may still let the volume grow."""
    move: Move | None = None
    """A migration that was not at its end: there may be a copy."""


def begin_deleting(tx: Session, notes: DeleteVolume, run: Run[Volume]) -> DeleteVolume | None:
    """Read where the volume lies: whoever was making it may have been ended before us.

    Whoever gave way to this one has said meanwhile what the volume was then: a deletion that it
    cannot be deleted, a reset what an administrator wanted.
    """
    statuses.change(tx, notes.volume_id, allowed=None, now=run.now(), status="deleting")
    row = tx.get(VolumeRow, notes.volume_id)
    if row is None or row.backend is None:
        return None
    left = growing.forget(tx, row, run.now())
    return replace(notes, backend=row.backend, event=left.event, move=copies.find(row))


async def stop_compute(notes: DeleteVolume, run: Run[Volume]) -> None:
    """See that compute does not let the volume grow any more."""
    await growing.stop_compute(run, notes.event)


async def find_exports(notes: DeleteVolume, run: Run[Volume]) -> DeleteVolume | None:
    """Find what else the volume is exported for: whoever was absorbed may have left it."""
    if not notes.backend:
        return None
    agent = await backends.agent_of(run, backends.split(notes.backend)[0])
    file = await agent.show_volume(notes.volume_id)
    found = [] if file is None else file.exports
    return replace(notes, exports=sorted({*notes.exports, *found}))


async def end_export(notes: DeleteVolume, export_id: str, run: Run[Volume]) -> None:
    """End one export."""
    if notes.backend:
        agent = await backends.agent_of(run, backends.split(notes.backend)[0])
        await agent.unexport_volume(notes.volume_id, export_id, operation=run.operation)


async def remove_storage(notes: DeleteVolume, run: Run[Volume]) -> None:
    """Remove the volume from its pool; one that is not there is fine.

    Its copy goes first: a late call may make that the volume, but none makes the copy.
    """
    if notes.move is not None:
        await copies.remove(run, notes.move)
    if notes.backend:
        agent = await backends.agent_of(run, backends.split(notes.backend)[0])
        await agent.delete_volume(notes.volume_id, operation=run.operation)


def forget_volume(tx: Session, notes: DeleteVolume, run: Run[Volume]) -> None:
    """Delete the row, and with it attachments and exports; the quota has it back."""
    # Behind this step there is nothing left that its story could tell of.
    notices.send(tx, run.service, notes.volume_id, "delete.end")
    # A migration under a guest whose end nobody heard of has left the row of its copy.
    for volume_id in (notes.volume_id, notes.move.copy_id if notes.move else ""):
        if (row := tx.get(VolumeRow, volume_id)) is not None:
            tx.delete(row)


def show_error(tx: Session, notes: DeleteVolume, run: Run[Volume]) -> None:
    """Tell that the storage keeps the volume."""
    statuses.change(
        tx, notes.volume_id, allowed=("deleting",), now=run.now(), status="error_deleting"
    )


def _locks(notes: DeleteVolume) -> Sequence[Lock]:
    return (exclusive(f"volume:{notes.volume_id}"),)


def _define(name: str, mode: Mode, *heirs: Step) -> Saga[DeleteVolume]:
    return Saga(
        name,
        DeleteVolume,
        # Undone only when it gives up waiting for whoever is at work on the volume.
        Step("begin_deleting", begin_deleting, undo=show_error),
        Step("stop_compute", stop_compute, may_be_forgone=True),
        *heirs,
        Each(
            "exports",
            lambda notes: notes.exports,
            Step("end_export", end_export, may_be_forgone=True),
        ),
        Step("remove_storage", remove_storage, may_be_forgone=True),
        Step("forget_volume", forget_volume),
        locks=_locks,
        mode=mode,
        pivot="begin_deleting",
        failed_end=[Step("show_error", show_error)],
        residue=("volumes",),
        story=tell(begun="delete.start"),
    )


DELETE_VOLUME = _define("volume.delete_volume", "refuse")
# Whoever is at work on the volume is undone first, or absorbed: removing is what its undo would do.
FORCE_DELETE_VOLUME = _define(
    "volume.force_delete_volume",
    "preempt",
    Step("find_exports", find_exports, may_be_forgone=True),
)
