"""When which saga is advanced: a queue, a number of slots, and the times at which sagas wake."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections import deque
from collections.abc import Generator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Generic, Protocol, TypeVar

import structlog
from sqlalchemy.orm import Session

from mooring import bulkhead
from mooring.bulkhead import Hindrance
from mooring.clock import Clock, SimulatedClock
from mooring.errors import Unavailable
from mooring.saga import former, journal, locks, ownership
from mooring.saga.define import REGISTRY
from mooring.saga.journal import Bookmark, LostLeaseError
from mooring.saga.runner import Runner, tell_trouble
from mooring.saga.slots import Place, Slots, read_hindrance
from mooring.saga.teller import COUNTED_REST_S
from mooring.saga.timers import Timers
from mooring.saga.turn import Work, load_work
from mooring.saga.watch import Watch
from mooring.store.base import Store

S = TypeVar("S")
log = structlog.get_logger()

AFTER_TROUBLE_S = 1.0
SHARED_POLL_S = 0.25


class Host(Protocol):
    """The engine, as its schedule sees it."""

    name: str
    store: Store
    clock: Clock
    owner: str

    def let_go(self, tx: Session, saga_id: str, keys: Sequence[str] | None = None) -> None:
        """Release the locks that a saga holds or waits for, and wake those who have them now."""
        ...


class Schedule(Generic[S]):
    """Dispatches sagas to slots. A saga that rests or waits holds neither slot nor task."""

    def __init__(self, runner: Runner[S], host: Host, *, slots: int) -> None:
        self._runner, self._host = runner, host
        self._slots = Slots(slots, self._dispatch)
        self._places: dict[str, Place] = {}
        self._called_back: set[str] = set()
        self._queue: deque[str] = deque()
        self._queued: set[str] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._works: dict[str, Work[S]] = {}
        self._timers = Timers(host.clock)
        self._fresh: dict[str, Work[S]] = {}
        self._interrupted: set[str] = set()
        self._watchers: dict[str, set[Watch]] = {}
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._timekeeper: asyncio.Task[None] | None = None
        self._over: asyncio.Future[None] | None = None
        self._is_open, self._is_taking = False, False
        self._crash: BaseException | None = None
        self.unknown: set[str] = set()

    # -- being told -------------------------------------------------------------------------

    def wake(self, saga_id: str, *, at: datetime | None = None) -> None:
        """Advance a saga as soon as a slot is free, or not before `at`."""
        if at is not None:
            self._timers.set(saga_id, at)
            self._keep_time()
        elif saga_id in self._running:
            self._again.add(saga_id)
        elif saga_id not in self._queued:
            self._queued.add(saga_id)
            self._queue.append(saga_id)
            self._dispatch()

    def begin(self, work: Work[S]) -> None:
        """Advance a saga that was started here and has been committed."""
        mark = work.mark
        if mark.state == "ready" and not ownership.is_shared(self._host.store):
            self._fresh[mark.id] = work
        if mark.state != "ended":
            self.wake(mark.id, at=mark.wake_at)

    def saved(self, mark: Bookmark) -> None:
        """Take note that a bookmark was saved and has been committed."""
        if mark.state == "parked" and mark.wake_at is not None:
            self.wake(mark.id, at=mark.wake_at)
        if work := self._works.get(mark.id):
            # Somebody may come to watch before the runner goes on with it.
            work.saved = mark
        for watch in self._watchers.get(mark.id, ()):
            watch.show(mark)

    def interrupt(self, saga_id: str) -> None:
        """Stop the outside work of a running step, because an abort was asked for."""
        # One that has not begun looks at its bookmark again before it does.
        self._fresh.pop(saga_id, None)
        if work := self._works.get(saga_id):
            work.interrupt()
        elif saga_id in self._running:
            self._interrupted.add(saga_id)

    @contextlib.contextmanager
    def watching(self, saga_id: str) -> Generator[Watch]:
        """Tell what becomes of a saga, as far as this process saves it."""
        watch = Watch()
        work = self._works.get(saga_id) or self._fresh.get(saga_id)
        if work is not None and not ownership.is_shared(self._host.store):
            watch.show(work.saved or work.mark)
        self._watchers.setdefault(saga_id, set()).add(watch)
        try:
            yield watch
        finally:
            self._watchers[saga_id].discard(watch)
            if not self._watchers[saga_id]:
                del self._watchers[saga_id]

    # -- running ----------------------------------------------------------------------------

    async def take_over(self) -> None:
        """Own what a predecessor left: everything on SQLite, what has no lease on PostgreSQL."""
        store, owner = self._host.store, self._host.owner
        everything = not ownership.is_shared(store)
        await self._claim(everything=everything)
        ready = await store.read(lambda tx: ownership.runnable(tx, owner))
        resting = await store.read(lambda tx: ownership.resting(tx, owner))
        # What was started before is of an epoch that has passed.
        self._fresh.clear()
        self._is_open = True
        self._rest(resting)
        for saga_id, _ in ready:
            self.wake(saga_id)
        self._dispatch()

    def _rest(self, resting: Sequence[tuple[str, datetime, datetime]]) -> None:
        """Let sagas of a predecessor rest for what is left of it: never longer than it said."""
        for saga_id, wake_at, said_at in resting:
            self._timers.set(saga_id, wake_at, longest_s=(wake_at - said_at).total_seconds())
            self._keep_time()

    async def _claim(self, *, everything: bool) -> list[str]:
        store, owner = self._host.store, self._host.owner
        now = self._host.clock.now()

        def take(tx: Session) -> list[str]:
            found = ownership.claim(tx, store, owner, everything=everything, now=now)
            if found:
                former.translate(tx, owner)
            return found

        return await store.write(take)

    async def run(self) -> None:
        """Look after leases and other processes until `stop` or a probe ends us."""
        self._over = asyncio.get_running_loop().create_future()
        chores: list[asyncio.Task[None]] = []
        if ownership.is_shared(self._host.store):
            chores.append(asyncio.create_task(self._share_for_ever()))
        try:
            await self._over
        finally:
            for chore in chores:
                chore.cancel()
            await asyncio.gather(*chores, return_exceptions=True)

    async def stop(self) -> None:
        """Cancel everything that runs and dispatch nothing any more."""
        self._is_open = False
        self._fresh.clear()
        tasks = list(self._running.values())
        if self._timekeeper is not None:
            tasks.append(self._timekeeper)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._over is not None and not self._over.done():
            self._over.set_result(None)

    def _dispatch(self) -> None:
        while self._is_open and self._queue and self._slots.is_free():
            saga_id = self._queue.popleft()
            self._queued.discard(saga_id)
            self._places[saga_id] = Place(self._slots, partial(self._call_back, saga_id))
            task = asyncio.create_task(self._advance(saga_id), name=f"saga {saga_id}")
            self._running[saga_id] = task
            task.add_done_callback(lambda done, saga_id=saga_id: self._done(saga_id, done))
        if self._running or self._queue:
            self._quiet.clear()
        else:
            self._quiet.set()

    def _done(self, saga_id: str, task: asyncio.Task[None]) -> None:
        self._running.pop(saga_id, None)
        self._works.pop(saga_id, None)
        self._interrupted.discard(saga_id)
        place = self._places.pop(saga_id)
        error = None if task.cancelled() else task.exception()
        if error is not None and not isinstance(error, Exception):
            self._break(error)
        elif error is not None and not isinstance(error, LostLeaseError):
            tell_trouble(self._host.name, saga_id, error)
            after = self._host.clock.now() + timedelta(seconds=AFTER_TROUBLE_S)
            self.wake(saga_id, at=after)
        place.end()
        if saga_id in self._again:
            self._again.discard(saga_id)
            self.wake(saga_id)
        self._dispatch()

    def _break(self, error: BaseException) -> None:
        """End this engine: whoever runs it raises the error."""
        self._is_open, self._crash = False, error
        if self._over is not None and not self._over.done():
            self._over.set_exception(error)

    def _call_back(self, saga_id: str) -> None:
        """Wake a saga that was turned away at the door of a host which answers again."""
        self._called_back.add(saga_id)
        self.wake(saga_id)

    async def _advance(self, saga_id: str) -> None:
        bulkhead.carry(self._places[saga_id])
        work = self._fresh.pop(saga_id, None) or await self._load(saga_id)
        if work is None:
            return
        self._timers.forget(saga_id)
        # What was read may be older than the abort.
        work.interrupted = saga_id in self._interrupted
        self._works[saga_id] = work
        await self._runner.advance(work)

    async def _load(self, saga_id: str) -> Work[S] | None:
        """Return a saga that may be advanced now, as the database has it."""
        store, is_called = self._host.store, saga_id in self._called_back
        self._called_back.discard(saga_id)
        loaded = await store.read(lambda tx: load_work(tx, saga_id, REGISTRY))
        if loaded is None or loaded[0].state == "ended" or loaded[0].owner != self._host.owner:
            return None
        mark, saga, generations = loaded
        if saga is None:
            self.unknown.add(saga_id)
            log.error("saga.unknown", saga=saga_id, name=mark.name, version=mark.version)
            return None
        if mark.state != "ready" and not await self._rise(mark, is_called=is_called):
            return None
        return Work(mark, saga, generations)

    async def _rise(self, mark: Bookmark, *, is_called: bool) -> bool:
        """Ready a resting saga whose time has come, or its host; False when it has not."""
        until = mark.wake_at
        is_called = is_called and read_hindrance(mark.waits_for) is not None
        # Who asked it to give up wrote the time by a clock that may be another machine's.
        is_called = is_called or (mark.state == "locked" and mark.abort > 0)
        if not is_called and until is not None and not self._timers.is_over(mark.id, until):
            self.wake(mark.id, at=mark.wake_at)
            return False
        if mark.state == "locked":
            if not await self._host.store.write(lambda tx: self._give_up(tx, mark.id)):
                return False
            late = Unavailable("The operation waited too long for another one to end.", final=True)
            why = journal.why_ended_early(mark.abort) if mark.abort else late
            mark.error, mark.heading = journal.encode_error(why), "back"
        elif mark.parked_since is not None:
            mark.spent_s += min(self._timers.rested_s(mark.id, mark.parked_since), COUNTED_REST_S)
        waited_for = mark.waits_for
        mark.state, mark.waits_for, mark.wake_at, mark.parked_since = "ready", "", None, None
        if waited_for and read_hindrance(waited_for) is None:
            # A signal that comes while this looks is kept for it; it would wake who sleeps no more.
            await self._host.store.write(lambda tx: journal.save(tx, mark, self._host.clock.now()))
        return True

    def _give_up(self, tx: Session, saga_id: str) -> bool:
        """Let go of the locks that a saga waits for; False when it has been given them meanwhile.

        Whoever gave them, or one of several who hold them, may have left its work to this saga.
        """
        locks.serialize(tx)
        mark = journal.load(tx, saga_id)
        if mark is None or mark.state != "locked" or mark.wake_at is None:
            return False
        self._host.let_go(tx, saga_id)
        return True

    # -- time -------------------------------------------------------------------------------

    def next_wake(self) -> datetime | None:
        """Return when the first timer rings, or None."""
        rest_s = self._timers.next_s()
        return None if rest_s is None else self._host.clock.now() + timedelta(seconds=rest_s)

    def hindrance(self, saga_id: str) -> Hindrance | None:
        """Return which host owes a saga an answer just now, if one does for long."""
        place = self._places.get(saga_id)
        return place.hindrance if place else None

    def is_quiet(self) -> bool:
        """Whether nothing runs and nothing is queued."""
        return not self._running and not self._queue

    async def quiet(self) -> None:
        """Return when nothing runs and nothing is queued."""
        await self._quiet.wait()

    def ring(self) -> None:
        """Wake the sagas whose time has come."""
        for saga_id in self._timers.ring():
            self.wake(saga_id)

    async def settle(self, horizon_s: float) -> None:
        """Wait until nothing moves; turn a simulated clock to each timer within the horizon.

        Raises what a probe raised when it ended this engine.
        """
        clock = self._host.clock
        limit = clock.now() + timedelta(seconds=horizon_s)
        while True:
            await self.quiet()
            if self._crash is not None:
                raise self._crash
            at = self.next_wake()
            if at is None or at > limit:
                return
            wait_s = max(0.0, (at - clock.now()).total_seconds())
            if isinstance(clock, SimulatedClock):
                clock.advance(wait_s)
            else:
                await clock.sleep(wait_s)
            self.ring()

    def _keep_time(self) -> None:
        if self._timekeeper is not None:
            self._timekeeper.cancel()
        self._timekeeper = asyncio.create_task(self._ring_when_due())

    async def _ring_when_due(self) -> None:
        try:
            while (rest_s := self._timers.next_s()) is not None:
                await self._host.clock.sleep(rest_s)
                if self._is_open:
                    self.ring()
        except Exception as error:  # noqa: BLE001  (no saga that rests would ever go on)
            self._break(error)

    # -- chores -----------------------------------------------------------------------------

    async def _share_for_ever(self) -> None:
        beats = round(ownership.RENEW_S / SHARED_POLL_S)
        for beat in itertools.count():
            await asyncio.sleep(SHARED_POLL_S)
            with _survived(self._host.name, "lease"):
                await self.share(renew=beat % beats == 0)

    async def _take_what_is_free(self) -> None:
        """Take over what has no lease. Cut off in the middle, the next turn does the rest of it.

        What we own, and whose rest nobody counts, would never go on.
        """
        was_cut_off, self._is_taking = self._is_taking, True
        if await self._claim(everything=False) or was_cut_off:
            owner = self._host.owner
            self._rest(await self._host.store.read(lambda tx: ownership.resting(tx, owner)))
        self._is_taking = False

    async def share(self, *, renew: bool = True) -> None:
        """Renew our leases, take over what has none, and see what other processes did to ours."""
        store, owner, clock = self._host.store, self._host.owner, self._host.clock
        if renew:
            await store.write(lambda tx: ownership.renew(tx, store, owner, clock.now()))
            await self._take_what_is_free()
        for saga_id, abort in await store.read(lambda tx: ownership.runnable(tx, owner)):
            if work := self._works.get(saga_id):
                work.heed(abort)
            elif saga_id not in self._running and saga_id not in self.unknown:
                self.wake(saga_id)


@contextlib.contextmanager
def _survived(service: str, chore: str) -> Generator[None]:
    """Let a chore that meets a database in trouble try again at its next turn."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  (whatever it was, the next turn may go well)
        log.warning("saga.chore_failed", service=service, chore=chore, error=str(error))
