"""The engine of one service: starts sagas inside the service's own transactions, and ends each."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any, Generic, TypeAlias, TypeVar, cast

import msgspec
import structlog
from msgspec import Struct
from sqlalchemy import Table, select, update
from sqlalchemy.orm import Session

from mooring import typed
from mooring.clock import Clock
from mooring.errors import Conflict, NotFound, Unavailable, from_record
from mooring.probe import Probe
from mooring.saga import journal, locks, ownership, waiting
from mooring.saga.children import ended_signal
from mooring.saga.define import REGISTRY, Lock, Saga, Step
from mooring.saga.held import HeldError, gives_way, insist_if_held
from mooring.saga.journal import ABORT_ASKED, ABORT_INSISTED, ABORT_PREEMPTED, Bookmark
from mooring.saga.locks import LOCK_WAIT_S
from mooring.saga.plan import Plan
from mooring.saga.runner import Runner
from mooring.saga.schedule import Schedule
from mooring.saga.seal import Sealer
from mooring.saga.tables import SagaRow
from mooring.saga.turn import Tools, Work
from mooring.store.base import Store, after_commit
from mooring.who import Who

S = TypeVar("S")
T = TypeVar("T")
_Insist: TypeAlias = Callable[[Session], T] | None
N = TypeVar("N", bound=Struct)

VISIBLE_WAIT_S = 5.0
ANSWER_WAIT_S = 60.0
END_WAIT_S = 10.0
"""How long `end` waits at a time: its caller may be a saga, which holds a slot until the answer."""
GATEWAY_TIMEOUT = 504
log = structlog.get_logger()
_sagas = cast("Table", SagaRow.__table__)


class Engine(Generic[S]):
    """Runs the sagas of one service on its store. `owner` names this process in leases."""

    def __init__(
        self,
        service_name: str,
        service: S,
        store: Store,
        *,
        clock: Clock,
        random: Random,
        probe: Probe,
        sealer: Sealer,
        owner: str,
        slots: int = 16,
    ) -> None:
        self.name, self.store, self.clock, self.owner = service_name, store, clock, owner
        self._sealer = sealer
        tools = Tools(
            service=service,
            store=store,
            clock=clock,
            random=random,
            probe=probe,
            sealer=sealer,
            ended=self._ended,
            saved=self._saved,
            start_child=self._start_child,
            abort_child=self._abort_child,
            let_go=self.let_go,
        )
        self._runner = Runner(tools)
        self.schedule: Schedule[S] = Schedule(self._runner, self, slots=slots)

    # -- starting ---------------------------------------------------------------------------

    def start(
        self,
        tx: Session,
        saga: Saga[N],
        notes: N,
        *,
        who: Who | None = None,
        saga_id: str | None = None,
        parent_id: str = "",
        wait_s: float = LOCK_WAIT_S,
    ) -> str:
        """Write down a saga in the caller's transaction, to run after its commit; return its id.

        Raises HeldError, a Conflict, when the saga refuses to wait and somebody holds its locks.
        """
        wanted = _unique(saga.locks(notes))
        held = self._claim(tx, saga, wanted, parent_id)
        first = Plan(saga, notes).places[0]
        now = self.clock.now()
        mark = Bookmark(
            id=saga_id or str(uuid.uuid4()),
            name=saga.name,
            version=saga.version,
            state="ready" if held else "locked",
            step=first.name,
            item=first.item,
            notes=msgspec.to_builtins(notes),
            owner=self.owner,
            wake_at=None if held else now + timedelta(seconds=wait_s),
            sealed_who=self._sealer.seal(msgspec.json.encode(who)) if who else None,
            project_id=who.project_id if who else "",
            request_id=who.request_id if who else "",
            parent_id=parent_id,
        )
        journal.add(tx, mark, now, ownership.lease_end(self.store, now))
        work: Work[S] = Work(mark, saga, locks.take(tx, mark.id, wanted, held=held))
        if held and isinstance(first.part, Step) and first.part.do_is_transaction:
            self._begin(tx, work)
        after_commit(tx, lambda: self.schedule.begin(work))
        return mark.id

    def _begin(self, tx: Session, work: Work[S]) -> None:
        """Run the leading transactions of a saga right in the transaction that starts it.

        One that fails takes the start back: its error is the caller's, and nothing has happened.
        """
        work.mark, work.notes = self._runner.write_down(tx, work, None)
        if work.mark.error:
            raise from_record(work.mark.error)

    async def submit(
        self, fn: Callable[[Session], T], insist: _Insist[T] = None, *, patience_s: float = 0.0
    ) -> T:
        """Run a transaction that starts a saga; wait 5 s for one that is visible, or `patience_s`.

        Who can `insist`, by a saga that pre-empts, does so if one that gives way stays so long.
        """
        patience = patience_s or VISIBLE_WAIT_S
        while True:
            try:
                return await self.store.write(fn)
            except HeldError as error:
                started = self.clock.monotonic()
                yields = insist is not None and error.gives_way
                may_end = error.visible or yields or patience_s > 0
                if not may_end or not await self._ends_within(error.holder, patience):
                    if insist is None or not yields:
                        raise
                    return await self.store.write(partial(insist_if_held, fn=fn, insist=insist))
                patience -= self.clock.monotonic() - started

    def _claim(self, tx: Session, saga: Saga[Any], wanted: Sequence[Lock], parent_id: str) -> bool:
        if not wanted:
            return True
        locks.serialize(tx)
        kin = locks.ancestors(tx, parent_id) | {parent_id} if parent_id else frozenset[str]()
        obstacles = locks.find_obstacles(tx, wanted, kin)
        if not obstacles:
            return True
        if saga.mode == "refuse":
            self._refuse(tx, saga, obstacles)
        if saga.mode == "preempt":
            for holder in obstacles:
                self._ask_abort(tx, holder, ABORT_PREEMPTED)
        return False

    def _refuse(self, tx: Session, saga: Saga[Any], obstacles: Sequence[str]) -> None:
        holders = [journal.load(tx, one) for one in obstacles]
        holder, holder_id = holders[0], obstacles[0]
        name = holder.name if holder else "an operation"
        message = (
            f"{saga.name} is refused: {name} (operation {holder_id}) is still at work on the same "
            "resource. Nothing was changed; try again when it has ended."
        )
        visible = bool(holder and holder.visible)
        raise HeldError(message, holder_id, visible=visible, gives_way=all(map(gives_way, holders)))

    # -- waiting for one --------------------------------------------------------------------

    async def answered(self, saga_id: str, timeout_s: float = ANSWER_WAIT_S) -> None:
        """Wait until the saga has passed its `answered_after`. Raises its error if it failed.

        Raises Unavailable, naming the operation, after `timeout_s`; the saga goes on.
        """

        def seen(mark: Bookmark) -> bool:
            return mark.answered or mark.heading == "owing"

        mark = await self._watch(saga_id, seen, timeout_s)
        if not mark.answered and mark.outcome != "done":
            raise from_record(mark.error or {})

    async def ended(self, saga_id: str, timeout_s: float = ANSWER_WAIT_S) -> None:
        """Wait until the saga has ended. Raises the saga's error when it was not done."""
        mark = await self._watch(saga_id, lambda _: False, timeout_s)
        if mark.outcome != "done":
            raise from_record(mark.error or {})

    async def _watch(
        self, saga_id: str, seen: Callable[[Bookmark], bool], timeout_s: float
    ) -> Bookmark:
        deadline = self.clock.monotonic() + timeout_s
        with self.schedule.watching(saga_id) as watch:
            while True:
                mark = watch.take()
                if mark is None:
                    mark = await self.store.read(lambda tx: journal.load(tx, saga_id))
                if mark is None:
                    message = f"Operation {saga_id} is not known."
                    raise NotFound(message)
                if mark.state == "ended" or seen(mark):
                    return mark
                left = deadline - self.clock.monotonic()
                if left <= 0:
                    message = f"Operation {saga_id} has not ended yet and goes on."
                    raise Unavailable(message, operation=saga_id, status=GATEWAY_TIMEOUT)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(left, ownership.poll_s(self.store))):
                        await watch.changed.wait()

    async def _ends_within(self, saga_id: str, seconds: float) -> bool:
        try:
            await self._watch(saga_id, lambda _: False, seconds)
        except NotFound:
            return True
        except Unavailable:
            return False
        return True

    # -- signals, abort, retry --------------------------------------------------------------

    def signal(self, tx: Session, name: str, payload: Any = None) -> None:
        """Wake whoever waits for this name, or keep the signal until somebody does (24 h)."""
        for saga_id in journal.give_signal(tx, name, payload, self.clock.now()):
            self._wake_after(tx, saga_id)

    def holders(self, tx: Session, key: str) -> list[str]:
        """Return the ids of the sagas that hold a key or wait for it, in order."""
        return locks.holders(tx, key)

    def abort(
        self, tx: Session, saga_id: str, *, insists: bool = False, is_asker: bool = False
    ) -> None:
        """Ask a saga to unwind. Raises NotFound, or Conflict when there is only forward for it.

        One that has only forward goes on without what may be forgone when an operator `insists`,
        and is told when the service that asked for it gives it up (`is_asker`, `run.given_up`).
        """
        mark = journal.load(tx, saga_id)
        saga = REGISTRY.get((mark.name, mark.version)) if mark else None
        if mark is None or saga is None:
            raise NotFound(f"Operation {saga_id} is not known.")
        if mark.state == "ended":
            message = f"Operation {saga_id} has ended ({mark.outcome}); there is nothing to abort."
            raise Conflict(message)
        at = waiting.stand(saga, mark.notes, mark.heading, mark.step, mark.item)
        if at.is_late:
            was_tried = waiting.was_tried(mark.attempts, mark.waits_for)
            if insists and at.may_be_forgone and was_tried:
                self._ask_abort(tx, saga_id, ABORT_INSISTED)
                return
            if is_asker:
                self._tell_given_up(tx, mark)
                return
            raise waiting.no_way_back(saga_id, mark.waits_for if insists else "")
        self._ask_abort(tx, saga_id, ABORT_ASKED)

    async def end(self, saga_ids: Sequence[str]) -> None:
        """Give up what was asked for: abort these sagas, and return once all of them have ended.

        One that has only forward is told, and need not wait for whoever asked (`run.given_up`). Ids
        of no saga are left out. Raises Unavailable, naming one that goes on for `END_WAIT_S`.
        """

        def abort(tx: Session, saga_id: str) -> None:
            with contextlib.suppress(NotFound, Conflict):
                self.abort(tx, saga_id, is_asker=True)

        for saga_id in saga_ids:
            await self.store.write(partial(abort, saga_id=saga_id))
        for saga_id in saga_ids:
            with contextlib.suppress(NotFound):
                await self._watch(saga_id, lambda _: False, END_WAIT_S)

    def retry(self, tx: Session, saga_id: str) -> None:
        """Run a resting saga now. Raises NotFound, or Conflict when it has ended."""
        mark = journal.load(tx, saga_id)
        if mark is None:
            raise NotFound(f"Operation {saga_id} is not known.")
        if mark.state == "ended":
            raise Conflict(f"Operation {saga_id} has ended ({mark.outcome}): nothing to retry.")
        self._rouse(tx, saga_id)

    def _tell_given_up(self, tx: Session, mark: Bookmark) -> None:
        if mark.abort or mark.state == "locked":
            return
        tx.execute(update(_sagas).where(_sagas.c.id == mark.id).values(abort=ABORT_ASKED))
        self._rouse(tx, mark.id)

    def _ask_abort(self, tx: Session, saga_id: str, how: int) -> None:
        asked = update(_sagas).where(_sagas.c.id == saga_id, _sagas.c.abort < how)
        tx.execute(asked.values(abort=how))
        # One that still waits for its locks has nothing to wait for any more, unless it has
        # absorbed another: then nobody else would end what that one began.
        waiting = update(_sagas).where(_sagas.c.id == saga_id, _sagas.c.state == "locked")
        gives_up = waiting.where(_sagas.c.wake_at.is_not(None))
        tx.execute(gives_up.values(wake_at=self.clock.now()))
        self._rouse(tx, saga_id)
        after_commit(tx, lambda: self.schedule.interrupt(saga_id))

    def _rouse(self, tx: Session, saga_id: str) -> None:
        resting = update(_sagas).where(_sagas.c.id == saga_id, _sagas.c.state == "parked")
        tx.execute(resting.values(state="ready", waits_for="", wake_at=None))
        self._wake_after(tx, saga_id)

    def _wake_after(self, tx: Session, saga_id: str) -> None:
        after_commit(tx, lambda: self.schedule.wake(saga_id))

    # -- what runners tell ------------------------------------------------------------------

    def let_go(self, tx: Session, saga_id: str, keys: Sequence[str] | None = None) -> None:
        """Release what a saga holds or waits for, all or these; wake those who have it now."""
        granted = locks.release(tx, saga_id, keys)
        if granted:
            free = update(_sagas).where(_sagas.c.id.in_(granted), _sagas.c.state == "locked")
            tx.execute(free.values(state="ready", wake_at=None))
            for other in granted:
                self._wake_after(tx, other)

    def _ended(self, tx: Session, mark: Bookmark) -> None:
        if mark.parent_id:
            self.signal(tx, ended_signal(mark.id))

    def _saved(self, tx: Session, mark: Bookmark) -> None:
        after_commit(tx, lambda: self.schedule.saved(mark))

    def _start_child(
        self, tx: Session, saga: Saga[Any], notes: Any, child_id: str, parent: Bookmark
    ) -> None:
        who = None
        if parent.sealed_who is not None:
            who = typed.decode(self._sealer.open(parent.sealed_who), Who)
        self.start(tx, saga, notes, who=who, saga_id=child_id, parent_id=parent.id)

    def _abort_child(self, tx: Session, child_id: str) -> None:
        self._ask_abort(tx, child_id, ABORT_ASKED)

    # -- running ----------------------------------------------------------------------------

    async def open(self) -> None:
        """Take over what a dead predecessor left. Call it once, before the first request."""
        now = self.clock.now()
        await self.store.write(lambda tx: locks.raise_counter(tx, int(now.timestamp())))
        await self.schedule.take_over()

    async def run(self) -> None:
        """Advance sagas until `stop`. Raises what a probe raised when it ended this engine."""
        await self.schedule.run()

    async def stop(self) -> None:
        """Let go of everything at once; what was running is found again by the next `open`."""
        await self.schedule.stop()

    async def settle(self, horizon_s: float = 7200.0) -> None:
        """Return when nothing can move any more, turning a simulated clock as far as it takes."""
        await self.schedule.settle(horizon_s)

    def unknown(self, tx: Session) -> list[tuple[str, str, int]]:
        """Return (id, name, version) of unfinished sagas that this release has no definition of."""
        query = select(_sagas.c.id, _sagas.c.name, _sagas.c.version).where(
            _sagas.c.state != "ended"
        )
        rows = list(tx.execute(query))
        return [row for row in rows if (row[1], row[2]) not in REGISTRY]


def _unique(wanted: Sequence[Lock]) -> list[Lock]:
    found: dict[str, Lock] = {}
    for lock in wanted:
        if lock.key not in found or not lock.shared:
            found[lock.key] = lock
    return list(found.values())
