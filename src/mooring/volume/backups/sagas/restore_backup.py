"""Give a volume the content of a backup (facts/block_storage.md 1.8).

The backup is brought to the volume's host as an image is, every piece of it checked on the way, and
the storage replaces the content in one go. A failure leaves the volume in `error_restoring`, for
its owner to look at, and the backup as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from sqlalchemy.orm import Session

from mooring.saga.define import Run, Saga, Step, exclusive
from mooring.volume.backends import backends
from mooring.volume.backups import backup_rows, carrying
from mooring.volume.backups.story import tell
from mooring.volume.volumes import filling, statuses

if TYPE_CHECKING:
    from mooring.agent_api.client import AgentClient
    from mooring.volume.service import Volume

RESTORING = "restoring-backup"
_BRING, _REPLACE = "bring_backup", "replace_content"


class RestoreBackup(Struct, frozen=True, kw_only=True):
    """The notes. `bootable` and what follows is what the volume is to have of the backup.

    `labels` is its metadata; None where the backup knows of none.
    """

    backup_id: str
    volume_id: str
    backend: str
    bootable: bool = False
    image_metadata: dict[str, str] = {}
    labels: dict[str, str] | None = None


def begin_restoring(tx: Session, notes: RestoreBackup, run: Run[Volume]) -> None:
    """Show it."""
    backup_rows.give(tx, notes.backup_id, run.saga_id)
    now = run.now()
    statuses.change(tx, notes.volume_id, allowed=("available",), now=now, status=RESTORING)


def show_failure(tx: Session, notes: RestoreBackup, run: Run[Volume]) -> None:
    """Say that the volume is not what it was to be; the backup can be used again."""
    now = run.now()
    statuses.change(tx, notes.volume_id, allowed=(RESTORING,), now=now, status="error_restoring")
    free_backup(tx, notes, run)


async def bring_backup(notes: RestoreBackup, run: Run[Volume]) -> None:
    """Bring the data to the volume's host, as an image that nobody else asks for."""
    agent = await _agent(notes, run)
    await carrying.bring(run, agent, notes.backup_id, notes.volume_id)


async def remove_brought(notes: RestoreBackup, run: Run[Volume]) -> None:
    """Take them from the host's cache again."""
    agent = await _agent(notes, run)
    await agent.delete_image(notes.volume_id, operation=run.operation)


async def replace_content(notes: RestoreBackup, run: Run[Volume]) -> None:
    """Copy them; a copy that was killed starts again."""
    agent = await _agent(notes, run)
    copying = agent.replace_content(notes.volume_id, notes.volume_id, operation=run.operation)
    await filling.follow(run, agent, notes.volume_id, copying)


async def end_copy(notes: RestoreBackup, run: Run[Volume]) -> None:
    """See that no copy goes on or comes later."""
    agent = await _agent(notes, run)
    await agent.forget_content(notes.volume_id, operation=run.operation)


def show_restored(tx: Session, notes: RestoreBackup, run: Run[Volume]) -> None:
    """Say that the volume has the content, and what belongs to it."""
    values: dict[str, Any] = {"bootable": notes.bootable, "image_metadata": notes.image_metadata}
    if notes.labels is not None:
        values["labels"] = notes.labels
    change = {"status": "available", **values}
    statuses.change(tx, notes.volume_id, allowed=(RESTORING,), now=run.now(), **change)
    free_backup(tx, notes, run)


def free_backup(tx: Session, notes: RestoreBackup, run: Run[Volume]) -> None:
    """Let the backup be used again."""
    backup_rows.end(tx, notes.backup_id, run.saga_id, run.now(), status="available")


async def give_up_copy(notes: RestoreBackup, run: Run[Volume]) -> None:
    """See that no copy goes on, once another operation has the volume."""
    agent, operation = await _agent(notes, run), run.operation.of_step(_REPLACE)
    await agent.forget_content(notes.volume_id, operation=operation)


async def give_up_brought(notes: RestoreBackup, run: Run[Volume]) -> None:
    """Take the data from the host's cache, and see that they do not come late."""
    agent, operation = await _agent(notes, run), run.operation.of_step(_BRING)
    await agent.delete_image(notes.volume_id, operation=operation)


async def _agent(notes: RestoreBackup, run: Run[Volume]) -> AgentClient:
    return await backends.agent_of(run, backends.split(notes.backend)[0])


RESTORE_BACKUP = Saga(
    "volume.restore_backup",
    RestoreBackup,
    Step("begin_restoring", begin_restoring, undo=show_failure),
    Step(_BRING, bring_backup, undo=remove_brought, deadline_s=7500.0),
    Step(_REPLACE, replace_content, undo=end_copy, deadline_s=7500.0),
    Step("show_restored", show_restored),
    Step("remove_brought", remove_brought, may_be_forgone=True),
    locks=lambda notes: (
        exclusive(f"volume:{notes.volume_id}"),
        exclusive(f"backup:{notes.backup_id}"),
    ),
    visible_after="show_restored",
    # The data at the host are the volume's alone.
    lets_go=lambda notes: (f"backup:{notes.backup_id}",),
    pivot="show_restored",
    owes=(
        Step("give_up_copy", give_up_copy, may_be_forgone=True, until_taken=True),
        Step("give_up_brought", give_up_brought, may_be_forgone=True, until_taken=True),
    ),
    # The volume itself goes over to those in `error_restoring`.
    residue=("volumes", "sound_volumes", "messages"),
    story=tell("restore", "restore_backup", end_at="show_restored", absorbed=free_backup),
)
