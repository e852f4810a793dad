"""How a failure of what is done to a snapshot is told: by a message; upstream notifies nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.saga.define import Story
from mooring.share.messages import messages
from mooring.share.tables import SnapshotRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.saga.define import Run
    from mooring.share.service import Share


def tell(action: messages.Action) -> Story:
    """Return the story of a saga whose notes have a `snapshot_id`."""

    def fail(tx: Session, notes: Any, run: Run[Share]) -> None:
        # A saga told it: nobody reads here.
        row = tx.get(SnapshotRow, notes.snapshot_id)
        if row is not None:
            told = messages.Told(
                project_id=row.project_id,
                resource_type="SHARE_SNAPSHOT",
                resource_id=row.id,
                request_id=run.request_id,
            )
            messages.add(tx, told, (action, "unknown"), run.error, run.now())

    return Story(failed=fail)
