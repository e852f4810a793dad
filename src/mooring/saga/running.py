"""What the engine hands to a step beside its notes."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Generic, TypeVar

from mooring import typed
from mooring.errors import Bug, MooringError, from_record
from mooring.fence.operation import Operation
from mooring.saga import journal
from mooring.who import Who

if TYPE_CHECKING:
    from mooring.saga.journal import Bookmark
    from mooring.saga.turn import Tools, Work

S = TypeVar("S")


class StepRun(Generic[S]):
    """One attempt at one step: the `Run` of `mooring.saga.define`."""

    def __init__(self, tools: Tools[S], work: Work[S], mark: Bookmark, place_key: str) -> None:
        self._tools, self._mark, self._place_key = tools, mark, place_key
        self._saga, self._generations = work.saga, work.generations
        self.service: S = tools.service
        self.saga_id = mark.id
        self.attempt = mark.attempts
        self.request_id = mark.request_id
        self.project_id = mark.project_id

    @property
    def error(self) -> MooringError | None:
        """Why the saga failed, once it has."""
        return from_record(self._mark.error) if self._mark.error else None

    @property
    def undo_error(self) -> MooringError | None:
        """Which refusal stopped the unwinding; None while none did."""
        return from_record(self._mark.undo_error) if self._mark.undo_error else None

    @property
    def begun(self) -> bool:
        """Whether the saga's first step was done."""
        return self._mark.begun

    @property
    def answered(self) -> bool:
        """Whether `answered_after` was passed."""
        return self._mark.answered

    @property
    def visible(self) -> bool:
        """Whether `visible_after` was passed."""
        return self._mark.visible

    @property
    def ends_badly(self) -> bool:
        """Whether a bad end has begun, so that not all is taken back."""
        return self._mark.heading in {"failing", "leaving"}

    @property
    def given_up(self) -> bool:
        """Whether the service that asked for this has given it up."""
        return self._mark.abort == journal.ABORT_ASKED

    @property
    def pre_empted(self) -> bool:
        """Whether another saga asked this one to end, to take its place."""
        return self._mark.abort >= journal.ABORT_PREEMPTED

    @property
    def worked_s(self) -> float:
        """For how many seconds this step has been tried so far."""
        return self._mark.spent_s

    @property
    def user(self) -> Who | None:
        """Who asked, with the token they sent; None when nobody did or it was wiped."""
        sealed = self._mark.sealed_who
        if sealed is None:
            return None
        return typed.decode(self._tools.sealer.open(sealed), Who)

    @property
    def operation(self) -> Operation:
        """The operation of this step, with the generation of the saga's first exclusive lock."""
        generation = next(iter(self._generations.values()), 0)
        step = self._saga.key_in(self._mark.round, self._place_key)
        return Operation(self.saga_id, step, self._mark.epoch, generation)

    def generation(self, key: str) -> int:
        """Return the generation of a lock that this saga holds. Raises Bug for another key."""
        if key not in self._generations:
            message = f"Saga {self.saga_id} does not hold the lock {key}."
            raise Bug(message)
        return self._generations[key]

    def now(self) -> datetime:
        """Return the engine's time, in UTC."""
        return self._tools.clock.now()

    async def progress(self, percent: int) -> None:
        """Tell how far this step is, 0 to 100, for the operation's timeline."""
        mark, clamped = self._mark, max(0, min(100, percent))
        await self._tools.store.write(lambda tx: journal.note_progress(tx, mark, clamped))
