"""How what is done to a volume is told: its notifications, and the message that says why it failed.

The engine tells it (`mooring.saga.define.Story`), in the transactions in which it comes true, so a
saga says what its notifications are called and what its failure means, and its steps say nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from mooring.saga.define import Story
from mooring.volume.tables import VolumeRow
from mooring.volume.volumes import messages, notices

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.saga.define import Run
    from mooring.volume.service import Volume


class Failure(Struct, frozen=True):
    """What a failure is to the volume's owner (facts/block_storage.md 12.2).

    `unplaced` names what no pool was found for, as in `scheduler.<unplaced>`; empty when one was.
    `why` is said behind the detail, and names no host.
    """

    action: messages.Action
    detail: messages.Detail
    unplaced: str = ""
    why: str = ""


Explain = Callable[[VolumeRow, Any, Any], Failure | None]
"""Returns what a failure is to be called, of the volume, the notes and the run; None: nothing."""


def tell(
    *,
    begun: str = "",
    ended: str = "",
    explain: Explain | None = None,
    absorbed: Callable[[Session, Any, Run[Volume]], None] | None = None,
) -> Story:
    """Return the story of a saga whose notes have a `volume_id`.

    `begun` and `ended` are its notifications, as "create.start"; empty where upstream sends none.
    `absorbed` says of a volume what became of it, where its heir may be of another one.
    """
    story = Story() if absorbed is None else Story(absorbed=absorbed)
    if begun:
        story = replace(story, begun=Notice(begun))
    if ended:
        story = replace(story, ended=Notice(ended))
    if explain is not None:
        story = replace(story, failed=_Message(explain))
    return story


class Notice:
    """Sends one notification, of notes that are told of."""

    def __init__(self, event: str, is_told: Callable[[Any], bool] = lambda _: True) -> None:
        self._event, self._is_told = event, is_told

    def __call__(self, tx: Session, notes: Any, run: Run[Volume]) -> None:
        if self._is_told(notes):
            notices.send(tx, run.service, notes.volume_id, self._event)


class _Message:
    """Tells the owner why it failed, and whoever listens that no pool was found."""

    def __init__(self, explain: Explain) -> None:
        self._explain = explain

    def __call__(self, tx: Session, notes: Any, run: Run[Volume]) -> None:
        # For the sagas of a volume alone, and those act for nobody.
        row = tx.get(VolumeRow, notes.volume_id)
        failure = None if row is None else self._explain(row, notes, run)
        if row is None or failure is None:
            return
        what = failure.action, failure.detail
        messages.add(tx, row, what, request_id=run.request_id, now=run.now(), why=failure.why)
        if failure.unplaced and run.error is not None:
            reason, method = run.error.public, failure.unplaced
            notices.send_scheduling_failure(tx, run.service, row.id, reason, method=method)
