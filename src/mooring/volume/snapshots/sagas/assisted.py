"""What the two snapshot sagas share: compute is asked, and its answer, or the truth, is awaited.

Compute answers a request at once and does the work later; it tells the end by the snapshot action
`os-update_snapshot_status`, kept in the snapshot's row. An answer is a hint: what the storage shows
counts for more. Source: facts/block_storage.md 5.2.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from mooring.errors import Conflict, Unavailable
from mooring.saga.define import Park
from mooring.saga.ownership import require_lease
from mooring.volume.attachments import connections, renewing, sharing
from mooring.volume.tables import AttachmentRow, SnapshotRow

if TYPE_CHECKING:
    from mooring.agent_api.client import AgentClient
    from mooring.agent_api.snapshots import SnapshotFile
    from mooring.fence.operation import Operation
    from mooring.saga.define import Run
    from mooring.volume.service import Volume

CLOSED = "closed"
"""What `told` says when nobody listens any more."""
WORK_DONE = 90
"""The progress, in percent, with which compute says that its part is done."""
ACCEPTED = 95
"""The progress that says that its word was taken: from then on it cannot be taken back."""
_FAILED = ("error", "error_deleting")


def signal_of(snapshot_id: str) -> str:
    """Return the name of the signal that compute's answer gives."""
    return f"snapshot-told:{snapshot_id}"


class Told:
    """What compute has said so far: that its part is done, that it failed, or neither."""

    def __init__(self, status: str, progress: int, *, is_last: bool = False) -> None:
        self.is_last = is_last
        """Whether it has ended all it did before that: silence then means that nothing was done."""
        self.failed = status in _FAILED
        self.done = not self.failed and progress >= WORK_DONE

    def has_switched(self, file: SnapshotFile) -> bool:
        """Whether a guest writes to the overlay, for good.

        Compute takes the guest back before it says that it failed. Short of that the locks on the
        files know best, where there are any.
        """
        if self.failed or file.held == "below":
            return False
        return self.done or file.held == "overlay"

    def may_have_switched(self, file: SnapshotFile) -> bool:
        """Whether a guest writes to the overlay, or may for all anybody knows."""
        is_unheard = not self.failed and not self.is_last
        return self.has_switched(file) or (file.held == "unknown" and is_unheard)


Judge = Callable[["SnapshotFile"], bool]
"""Tells of a snapshot's file whether a guest has switched over to it."""


async def hear(run: Run[Volume], snapshot_id: str, *, is_last: bool = False) -> Told:
    """Return what compute has said of a snapshot."""
    query = select(SnapshotRow.told, SnapshotRow.progress).where(SnapshotRow.id == snapshot_id)
    found = await run.service.store.read(lambda tx: tx.execute(query).first())
    status, progress = ("", 0) if found is None else found
    return Told(status, progress, is_last=is_last)


class Assisted(Struct, frozen=True, kw_only=True):
    """The notes that both have."""

    snapshot_id: str
    volume_id: str
    host: str = ""
    server_id: str = ""
    """Whose guest has the volume; empty when nobody does."""
    give_up_at: float = 0.0
    """When compute's time is over, as a Unix time; 0 before it was asked."""
    turns: int = 0
    """How often it was begun before, and let go of a volume whose server was busy."""


class Question(Struct, frozen=True, kw_only=True):
    """What compute is to do, and how to see whether it has; it has `deadline_s` for it.

    `ask` is left out once compute has said anything. `is_done` goes by its word and by the storage.
    """

    ask: Callable[[], Awaitable[None]]
    is_done: Callable[[Told], Awaitable[bool]]
    deadline_s: float


async def await_compute(run: Run[Volume], notes: Assisted, question: Question) -> None:
    """Ask compute, and rest until it has done its part. Raises Conflict if it has not.

    At the end of its time compute is told to give up, and what is true then counts.
    """
    deadline_s = question.deadline_s
    told = await hear(run, notes.snapshot_id)
    if not notes.give_up_at:
        if not (told.done or told.failed):
            await question.ask()
        give_up_at = run.now().timestamp() + deadline_s
        raise _rest(run, replace(notes, give_up_at=give_up_at), deadline_s)
    is_late = run.now().timestamp() >= notes.give_up_at
    if is_late:
        told = await give_up(run, notes.snapshot_id, run.operation)
    if await question.is_done(told):
        return
    if told.failed or is_late:
        raise _refused(notes.snapshot_id)
    raise _rest(run, notes, deadline_s)


def _rest(run: Run[Volume], notes: Assisted, deadline_s: float) -> Park:
    left_s = max(1.0, notes.give_up_at - run.now().timestamp())
    return Park(
        signal=signal_of(notes.snapshot_id),
        seconds=min(30.0, left_s),
        timeout_s=10 * deadline_s,
        notes=notes,
    )


async def give_up(run: Run[Volume], snapshot_id: str, operation: Operation) -> Told:
    """See that compute works on the snapshot no more, and return its last word.

    Ours ends the operation, and tells how, before it answers; a real Nova knows no operations.
    After that a late word is refused.
    """
    buried = await run.service.compute.session.bury(operation)
    told = await hear(run, snapshot_id, is_last=buried is not None)
    silent = update(SnapshotRow).where(SnapshotRow.id == snapshot_id, SnapshotRow.told == "")

    def close(tx: Session) -> None:
        # Of who slept: by now it may be another operation that waits to hear of the snapshot.
        require_lease(tx, run)
        tx.execute(silent.values(told=CLOSED))

    await run.service.store.write(close)
    return told


def was_refused(notes: Assisted, run: Run[Volume]) -> bool:
    """Whether compute would not even begin when it was asked."""
    return not notes.give_up_at and run.error is not None and run.error.kind != "unavailable"


def accept(tx: Session, snapshot_id: str) -> None:
    """Take compute's word for the snapshot, and refuse what it may still say.

    Raises Unavailable when it has taken its word back by now: then the guest goes back too.
    """
    row = tx.get(SnapshotRow, snapshot_id, populate_existing=True, with_for_update=True)
    if row is not None and row.told in _FAILED:
        raise Unavailable("The compute service has just taken its word back.")
    if row is not None:
        row.told, row.progress = CLOSED, ACCEPTED


def is_merged(file: SnapshotFile | None, told: Told) -> bool:
    """Whether the files of a snapshot were merged: the header of the file knows best."""
    if file is None:
        return True
    return told.done if file.merged is None else file.merged


async def renew_connection(
    run: Run[Volume], agent: AgentClient, volume_id: str, attachment_id: str
) -> bytes | None:
    """Return an attachment's connection as it is now, sealed; None when it has none any more."""
    query = select(AttachmentRow.connector).where(
        AttachmentRow.id == attachment_id, AttachmentRow.connection.is_not(None)
    )
    connector = await run.service.store.read(lambda tx: tx.execute(query).scalar())
    if connector is None:
        return None
    connection = await renewing.export(run, agent, (volume_id, attachment_id), connector)
    named = await sharing.name_backend(run, volume_id, connection)
    return connections.seal(run.service.sealer, named)


async def keep_renewed(run: Run[Volume], attachment_id: str, sealed: bytes) -> None:
    """Write a connection down, unless another process goes on: it may name a later overlay."""

    def keep(tx: Session) -> None:
        require_lease(tx, run)
        keep_connection(tx, attachment_id, sealed)

    await run.service.store.write(keep)


def keep_connection(tx: Session, attachment_id: str, sealed: bytes) -> None:
    """Write an attachment's connection down, unless it was ended meanwhile."""
    mine = update(AttachmentRow).where(
        AttachmentRow.id == attachment_id, AttachmentRow.connection.is_not(None)
    )
    tx.execute(mine.values(connection=sealed))


def _refused(snapshot_id: str) -> Conflict:
    return Conflict(
        f"The compute service did not do its part for snapshot {snapshot_id}. The volume is as it "
        "was; see to the server and try again.",
    )
