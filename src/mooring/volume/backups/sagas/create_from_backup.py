"""Make a new volume of a backup: by a restore, or by its creation (facts/block_storage.md 1.2).

As one that is made from an image: a pool, the data to the pool's host, every piece of them checked,
and there the volume. A failure leaves it in error, with nothing in the storage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.agent_api.volumes import VolumeSpec
from mooring.errors import NoCapacity
from mooring.saga.define import Run, Saga, Step, exclusive
from mooring.volume.backends import backends
from mooring.volume.backups import backup_rows, carrying, story
from mooring.volume.tables import VolumeRow
from mooring.volume.volumes import filling, statuses
from mooring.volume.volumes.sagas import create_volume
from mooring.volume.volumes.sagas.create_notes import CreateVolume
from mooring.volume.volumes.story import Failure
from mooring.volume.volumes.story import tell as tell_of_volume

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.volume.service import Volume

_RESTORING, _MAKE = "restoring-backup", "make_volume"


class CreateFromBackup(CreateVolume, frozen=True, kw_only=True):
    """The notes. `is_restored` tells a restore, which has statuses of its own, from a creation."""

    backup_id: str
    is_restored: bool


def begin_restoring(tx: Session, notes: CreateFromBackup, run: Run[Volume]) -> None:
    """Show it."""
    backup_rows.give(tx, notes.backup_id, run.saga_id)
    if notes.is_restored:
        now = run.now()
        statuses.change(tx, notes.volume_id, allowed=("creating",), now=now, status=_RESTORING)


def show_failure(tx: Session, notes: CreateFromBackup, run: Run[Volume]) -> None:
    """Say that there is no volume, which lies nowhere any more; the backup can be used again."""
    row = tx.get(VolumeRow, notes.volume_id)
    if row is not None:
        row.backend = None
        allowed = ("creating", _RESTORING, *statuses.BORROWED)
        values = {"status": "error_restoring" if notes.is_restored else "error"}
        statuses.change(
            tx, notes.volume_id, allowed=allowed, now=run.now(), **values, **statuses.RETURNED
        )
    free_backup(tx, notes, run)


async def make_volume(notes: CreateFromBackup, run: Run[Volume]) -> None:
    """Bring the data to the host, as an image that nobody else asks for, and make it of that."""
    agent = await backends.agent_of(run, notes.host)
    await carrying.bring(run, agent, notes.backup_id, notes.volume_id)
    spec = VolumeSpec(
        pool=notes.pool,
        size_gib=notes.size_gib,
        image_id=notes.volume_id,
        format=notes.format,
    )
    making = agent.put_volume(notes.volume_id, spec, operation=run.operation)
    await filling.follow(run, agent, notes.volume_id, making)


async def remove_volume(notes: CreateFromBackup, run: Run[Volume]) -> None:
    """Remove what was made of it, and the data from the host's cache."""
    await create_volume.remove_volume(notes, run)
    await remove_brought(notes, run)


def show_available(tx: Session, notes: CreateFromBackup, run: Run[Volume]) -> None:
    """Tell that the volume is ready. One that was reserved meanwhile stays so."""
    now = run.now()
    statuses.change(tx, notes.volume_id, allowed=None, now=now, launched_at=now)
    allowed = ("creating", _RESTORING)
    statuses.change(tx, notes.volume_id, allowed=allowed, now=now, status="available")
    free_backup(tx, notes, run)


async def remove_brought(notes: CreateFromBackup, run: Run[Volume]) -> None:
    """Take the data from the host's cache again."""
    agent = await backends.agent_of(run, notes.host)
    await agent.delete_image(notes.volume_id, operation=run.operation)


def free_backup(tx: Session, notes: CreateFromBackup, run: Run[Volume]) -> None:
    """Let the backup be used again."""
    backup_rows.end(tx, notes.backup_id, run.saga_id, run.now(), status="available")


async def give_up_brought(notes: CreateFromBackup, run: Run[Volume]) -> None:
    """Take the data from the host's cache, and see that they do not come late."""
    if notes.host:
        agent, operation = await backends.agent_of(run, notes.host), run.operation.of_step(_MAKE)
        await agent.delete_image(notes.volume_id, operation=operation)


def _explain(row: VolumeRow, notes: CreateFromBackup, run: Run[Volume]) -> Failure:
    del row
    if not notes.host:
        why = run.error.public if isinstance(run.error, NoCapacity) else ""
        return Failure("schedule", "no_backend", unplaced="create_volume", why=why)
    return Failure("restore_backup", "unknown")


CREATE_VOLUME_FROM_BACKUP = Saga(
    "volume.create_volume_from_backup",
    CreateFromBackup,
    Step("begin_restoring", begin_restoring, undo=show_failure),
    Step("schedule", create_volume.schedule),
    Step(_MAKE, make_volume, undo=remove_volume, deadline_s=7500.0),
    Step("show_available", show_available),
    Step("remove_brought", remove_brought, may_be_forgone=True),
    locks=lambda notes: (
        exclusive(f"volume:{notes.volume_id}"),
        exclusive(f"backup:{notes.backup_id}"),
    ),
    visible_after="show_available",
    # The data at the host are the volume's alone.
    lets_go=lambda notes: (f"backup:{notes.backup_id}",),
    pivot="show_available",
    owes=(Step("give_up_brought", give_up_brought, may_be_forgone=True, until_taken=True),),
    residue=("volumes", "messages"),
    story=story.both(
        tell_of_volume(begun="create.start", ended="create.end", explain=_explain),
        story.tell("restore", "restore_backup", end_at="show_available", absorbed=free_backup),
    ),
)
