"""How a failure of what is done to a snapshot is told: by a message, for upstream notifies nobody.

The engine tells it (`mooring.saga.define.Story`), in the transaction in which it comes true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mooring.saga.define import Story
from mooring.volume.tables import SnapshotRow
from mooring.volume.volumes import messages

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.saga.define import Run
    from mooring.volume.service import Volume

Message = tuple[messages.Action, messages.Detail]


def tell(describe: Callable[[Any], Message], *, gives_reason: bool = False) -> Story:
    """Return the story of a saga whose notes have a `snapshot_id`, and say what its failure is.

    `gives_reason`: the message says why, too, as whoever reads it can do something about that.
    """

    def fail(tx: Session, notes: Any, run: Run[Volume]) -> None:
        # A saga told it: nobody reads here.
        row = tx.get(SnapshotRow, notes.snapshot_id)
        # What begins anew after a rest, and so has a saga already, has not failed yet.
        if row is None or row.saga_id:
            return
        what = describe(notes)
        # One that is to go is tried again and again, and told of once.
        if row.leaves_since is None or not messages.is_told(tx, row, what):
            why = run.error.public if gives_reason and run.error else ""
            messages.add(tx, row, what, request_id=run.request_id, now=run.now(), why=why)

    return Story(failed=fail)
