"""An attachment that stays, whose volume is exported to its host anew: its files are others now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mooring.errors import MooringError, Unavailable
from mooring.fence.rules import is_fenced
from mooring.saga.ownership import as_of_now
from mooring.volume.tables import AttachmentRow

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy.orm import Session

    from mooring.agent_api.client import AgentClient
    from mooring.fence.operation import Operation
    from mooring.saga.define import Run
    from mooring.volume.service import Volume


async def export(
    run: Run[Volume],
    agent: AgentClient,
    ids: tuple[str, str],
    connector: Mapping[str, Any],
) -> Mapping[str, Any]:
    """Export a volume once more, and return how to connect it; `ids`: its own, the attachment's.

    Who has the lock of the volume has not that of the attachment: somebody may have tried to delete
    it since, in vain, so that it stays. Then it is asked for as of now. Raises Unavailable while
    somebody is at work on it.
    """
    try:
        return await agent.export_volume(*ids, dict(connector), operation=run.operation)
    except MooringError as error:
        if not is_fenced(error):
            raise
        anew = await run.service.store.write(lambda tx: _begin_anew(tx, run, ids[1]))
        if anew is None:
            raise Unavailable(f"Attachment {ids[1]} is being deleted.") from error
    return await agent.export_volume(*ids, dict(connector), operation=anew)


def _begin_anew(tx: Session, run: Run[Volume], attachment_id: str) -> Operation | None:
    """Return the operation as of now; None for an attachment that another one has in hand."""
    anew = as_of_now(tx, run)
    # For sagas of the volume alone, which act for nobody.
    row = tx.get(AttachmentRow, attachment_id, populate_existing=True)
    if row is None or row.saga_id or row.deleting:
        return None
    return anew
