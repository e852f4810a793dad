"""Whose turn it is: who has a volume alone does not wait for a server that compute is busy with.

The other operation may be waiting for that very volume, so it is let go of: the saga is undone, and
this one, which holds nothing, begins it anew after a rest (docs/architecture.md, "Who may wait").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring import limits, typed
from mooring.errors import Conflict, MooringError
from mooring.saga.define import REGISTRY, Park, Run, Saga, Step
from mooring.saga.journal import is_unavailable
from mooring.volume.snapshots import uses
from mooring.volume.snapshots.story import Message, tell
from mooring.volume.tables import SnapshotRow

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from mooring.volume.service import Volume


_TICK_S = 0.001


class AwaitTurn(Struct, frozen=True, kw_only=True):
    """The notes: the saga to begin anew, by name and version, its notes, and for how long to rest.

    `former` is the snapshot's status if it is not to be.
    """

    snapshot_id: str
    saga: str
    version: int
    notes: dict[str, Any]
    former: str
    rest_s: float


async def ask(asking: Awaitable[None]) -> None:
    """Ask compute. Raises Conflict with the detail `turn` when it is busy with the server."""
    try:
        await asking
    except Conflict as error:
        if not is_unavailable(error):
            raise
        raise _not_now(error) from error


async def find_use(run: Run[Volume], volume_id: str) -> uses.Use:
    """Return who has a volume, as `uses.find`; while that changes, with the detail `turn`."""
    try:
        return await run.service.store.read(lambda tx: uses.find(tx, volume_id))
    except Conflict as error:
        if not is_unavailable(error):
            raise
        raise _not_now(error) from error


def _not_now(error: Conflict) -> Conflict:
    return Conflict(error.public, private=error.private, turn=True, final=True)


def comes_later(error: MooringError | None) -> bool:
    """Whether a saga failed because it was not its turn, or never got the volume."""
    if error is None:
        return False
    waited = error.kind == "unavailable" and bool(error.detail.get("final"))
    return waited or bool(error.detail.get("turn"))


class _Notes(Protocol):
    @property
    def snapshot_id(self) -> str: ...


def mine(tx: Session, notes: _Notes, run: Run[Volume]) -> SnapshotRow | None:
    """Return the snapshot as it is now; None when it is gone, or no work of this saga any more."""
    row = tx.get(SnapshotRow, notes.snapshot_id, populate_existing=True)
    return row if row is not None and row.saga_id == run.saga_id else None


def has_left(tx: Session, volume_id: str, server_id: str) -> bool:
    """Whether the server that had a volume has it no more, or is about to lose it."""
    try:
        return uses.find(tx, volume_id).server_id != server_id
    except MooringError as changing:
        return is_unavailable(changing)


class Waiting(Struct, frozen=True, kw_only=True):
    """Which saga is to be begun anew, and how often it has been; `former` as in `AwaitTurn`."""

    saga: str
    notes: Struct
    turns: int
    former: str


def begin_waiting(tx: Session, run: Run[Volume], row: SnapshotRow, waiting: Waiting) -> None:
    """Let a snapshot's saga be begun anew after a rest, which grows from turn to turn."""
    user = run.user
    wanted = AwaitTurn(
        snapshot_id=row.id,
        saga=waiting.saga,
        version=max(version for known, version in REGISTRY if known == waiting.saga),
        notes=msgspec.to_builtins(waiting.notes),
        former=waiting.former,
        rest_s=min(limits.VOLUME_TURN_S, 2.0 ** min(waiting.turns, 10)),
    )
    # The token of whoever asked serves nothing here, so it is not kept.
    who = replace(user, token="") if user else None
    row.told, row.progress = "", 0
    row.saga_id = run.service.sagas.start(tx, AWAIT_TURN, wanted, who=who)


async def rest(notes: AwaitTurn, run: Run[Volume]) -> None:
    """Rest, and hold nothing."""
    left_s = notes.rest_s - run.worked_s
    # What is less than a tick of the clock would be rested again and again without end.
    if left_s > _TICK_S:
        raise Park(seconds=left_s)


def give_up(tx: Session, notes: AwaitTurn, run: Run[Volume]) -> None:
    """Leave the snapshot as it is: an operator did not want it to go on."""
    row = mine(tx, notes, run)
    if row is not None:
        row.status, row.saga_id, row.updated_at = notes.former, "", run.now()


def begin_anew(tx: Session, notes: AwaitTurn, run: Run[Volume]) -> None:
    """Begin the saga, which waits in order for the volume."""
    row = mine(tx, notes, run)
    if row is None:
        return
    saga = REGISTRY[(notes.saga, notes.version)]
    wanted = typed.convert(notes.notes, saga.notes)
    row.saga_id = run.service.sagas.start(tx, saga, wanted, who=run.user)


def _describe(notes: AwaitTurn) -> Message:
    creates = notes.saga.endswith("create_snapshot")
    return ("create_snapshot" if creates else "delete_snapshot"), "unknown"


AWAIT_TURN = Saga(
    "volume.await_turn",
    AwaitTurn,
    Step("rest", rest, undo=give_up),
    Step("begin_anew", begin_anew),
    residue=("snapshots", "messages"),
    story=tell(_describe),
)
