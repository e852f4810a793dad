"""How what is done to a share is told: its notifications, and the message that says why it failed.

The engine tells it (`mooring.saga.define.Story`), in the transactions in which it comes true.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.structs import replace

from mooring.saga.define import Story
from mooring.share.messages import messages
from mooring.share.shares import notices
from mooring.share.tables import ShareRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.saga.define import Run
    from mooring.share.service import Share

Message: TypeAlias = tuple[messages.Action, messages.Detail]
Explain = Callable[[ShareRow, Any, Any], Message | None]
"""Returns what a failure is called, of the share, the notes and the run; None: nothing."""


def tell(*, begun: str = "", ended: str = "", explain: Explain | None = None) -> Story:
    """Return the story of a saga whose notes have a `share_id`.

    `begun` and `ended` are its notifications, as "create.start"; empty where upstream sends none.
    """
    story = Story()
    if begun:
        story = replace(story, begun=_notice(begun))
    if ended:
        story = replace(story, ended=_notice(ended))
    if explain is not None:
        story = replace(story, failed=_message(explain))
    return story


def _notice(event: str) -> Callable[[Session, Any, Run[Share]], None]:
    def send(tx: Session, notes: Any, run: Run[Share]) -> None:
        notices.send(tx, run.service, notes.share_id, event)

    return send


def _message(explain: Explain) -> Callable[[Session, Any, Run[Share]], None]:
    def tell_owner(tx: Session, notes: Any, run: Run[Share]) -> None:
        # A saga told it: nobody reads here.
        row = tx.get(ShareRow, notes.share_id)
        what = None if row is None else explain(row, notes, run)
        if row is None or what is None:
            return
        told = messages.Told(
            project_id=row.project_id,
            resource_type="SHARE",
            resource_id=row.id,
            request_id=run.request_id,
        )
        messages.add(tx, told, what, run.error, run.now())

    return tell_owner
