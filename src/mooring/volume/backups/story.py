"""How what is done to a backup is told: its notifications, and the message that says why it failed.

The engine tells it (`mooring.saga.define.Story`), in the transactions in which it comes true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mooring.saga.define import Story
from mooring.volume.backups import notices
from mooring.volume.tables import BackupRow
from mooring.volume.volumes import messages

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.saga.define import Run
    from mooring.volume.service import Volume

Told = Callable[["Session", Any, Any], None]


def tell(
    event: str,
    failure: messages.Action,
    *,
    begins: bool = True,
    end_at: str = "",
    absorbed: Told | None = None,
) -> Story:
    """Return the story of a saga whose notes have a `backup_id`.

    `event` is what its notifications are called before the phase; `begins` is off for one that goes
    on with what another one began. `end_at` is the step that shows what it made: its end is told
    there, as what follows concerns the host alone; "" for one whose end is told by its last step,
    or by another one. `failure` is what the message says that failed. `absorbed` says of a backup
    what became of it when the operation was given up.
    """

    def begin(tx: Session, notes: Any, run: Run[Volume]) -> None:
        notices.send(tx, run.service, notes.backup_id, f"{event}.start")

    def end(tx: Session, notes: Any, run: Run[Volume]) -> None:
        notices.send(tx, run.service, notes.backup_id, f"{event}.end")

    def fail(tx: Session, notes: Any, run: Run[Volume]) -> None:
        # A saga told it: nobody reads here.
        row = tx.get(BackupRow, notes.backup_id)
        if row is not None:
            what: tuple[messages.Action, messages.Detail] = failure, "unknown"
            messages.add(tx, row, what, request_id=run.request_id, now=run.now())

    def say_nothing(tx: Session, notes: Any, run: Run[Volume]) -> None:
        del tx, notes, run

    return Story(
        begun=begin if begins else say_nothing,
        passed={end_at: end} if end_at else {},
        failed=fail,
        absorbed=absorbed or say_nothing,
    )


def both(of_volume: Story, of_backup: Story) -> Story:
    """Return the story of a saga that makes a volume of a backup: one message says why it failed.

    That one is the volume's: the backup is as it was.
    """

    def begin(tx: Session, notes: Any, run: Run[Volume]) -> None:
        of_volume.begun(tx, notes, run)
        of_backup.begun(tx, notes, run)

    return Story(
        begun=begin,
        passed=of_backup.passed,
        ended=of_volume.ended,
        failed=of_volume.failed,
        absorbed=of_backup.absorbed,
    )
