"""One function on its way through a database's thread and back to the event loop that asked."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from sqlalchemy.orm import Session, make_transient, make_transient_to_detached

from mooring.errors import Bug
from mooring.store import failures
from mooring.store.failures import FlushLostError
from mooring.store.link import execute, link_of

T = TypeVar("T")
_CALLBACKS = "mooring.after_commit"
_CAREFUL = "mooring.careful"
_log = logging.getLogger(__name__)


def after_commit(tx: Session, callback: Callable[[], None]) -> None:
    """Run `callback` on the caller's event loop once the transaction of `tx` has committed.

    Callbacks run in the order of their registration, before the writer's own `await` returns, also
    when the writer was cancelled meanwhile. After a rollback of the transaction, or of the
    `savepoint` inside it that they were registered in, they never run.
    """
    tx.info.setdefault(_CALLBACKS, []).append(callback)


@contextmanager
def savepoint(tx: Session) -> Generator[None]:
    """Run a part of a transaction that an error takes back alone, its callbacks with it.

    Objects that the session held before show what the database has then; what it has loaded or
    made since it holds no more.
    """
    callbacks: list[Callable[[], None]] = tx.info.setdefault(_CALLBACKS, [])
    before, careful = len(callbacks), tx.info.get(_CAREFUL, False)
    held = [] if careful else _set_savepoint(tx)
    try:
        if careful:
            with tx.begin_nested():
                yield
        else:
            yield
            tx.flush()
    except BaseException as error:
        del callbacks[before:]
        if not careful:
            _take_back(tx, held, error)
        raise
    if not careful:
        execute(link_of(tx), "RELEASE SAVEPOINT part").close()


def _set_savepoint(tx: Session) -> list[object]:
    """Set a savepoint at the driver, which costs a fiftieth of one that SQLAlchemy accounts for.

    Return what the session holds.
    """
    tx.flush()
    execute(link_of(tx), "SAVEPOINT part").close()
    return [*tx]


def _take_back(tx: Session, held: Sequence[object], error: BaseException) -> None:
    if not tx.is_active:
        # A flush that failed has taken back the whole transaction, as no savepoint of the
        # session's own was there.
        raise FlushLostError from error
    link = link_of(tx)
    execute(link, "ROLLBACK TO SAVEPOINT part").close()
    execute(link, "RELEASE SAVEPOINT part").close()
    _forget(tx, held)


def _forget(tx: Session, held: Sequence[object]) -> None:
    """Have a session hold what it held, to be read anew, and nothing else."""
    known = {id(row) for row in held}
    for row in [*tx]:
        if id(row) not in known:
            tx.expunge(row)
    for row in held:
        if row not in tx:
            # It was deleted since. The session keeps such objects apart until it commits.
            tx.expunge(row)
            make_transient(row)
            make_transient_to_detached(row)
            tx.add(row)
        tx.expire(row)


class Call(Generic[T]):
    """A function for the database, the future that waits for it, and what came of it.

    A caller who is cancelled stops waiting; the function runs all the same, wholly or not at all.
    """

    def __init__(self, fn: Callable[[Session], T]) -> None:
        self.fn = fn
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self.error: BaseException | None = None
        self.careful = False
        """Whether its savepoints are the session's own: it has lost a transaction without."""
        self._result: list[T] = []
        self._callbacks: list[Callable[[], None]] = []

    def run(self, tx: Session) -> None:
        """Run the function in `tx`, and keep its result and its callbacks until the commit."""
        tx.info[_CAREFUL], self.error = self.careful, None
        try:
            result = self.fn(tx)
        except FlushLostError:
            self.careful = True
            raise
        if inspect.iscoroutine(result):
            result.close()
            raise Bug(
                "An internal error occurred.",
                private=f"a transaction must be a plain function: {self.fn!r}",
            )
        tx.flush()
        self._result = [result]
        self._callbacks = tx.info.get(_CALLBACKS, [])

    def fail(self, error: BaseException, *, reading: bool = False) -> None:
        """Note that nothing came of it: the caller gets the error, a database's own as its kind."""
        known = failures.translate(error, reading=reading)
        if known is not None:
            known.__cause__ = error
        self.error = known or error
        self._result, self._callbacks = [], []

    def deliver(self) -> None:
        """On the event loop: run the callbacks of a commit, then hand out result or error."""
        for callback in self._callbacks:
            try:
                callback()
            except Exception as error:  # noqa: BLE001  (the next one is owed its turn)
                context = {"message": "a callback after a commit failed", "exception": error}
                self.loop.call_exception_handler(context)
        if self.future.done():
            if self.error is not None:
                _log.warning("the caller of a failed transaction has gone", exc_info=self.error)
        elif self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self._result[0])


def deliver(calls: Iterable[Call[Any]]) -> None:
    """Hand finished calls to their event loops, one wake-up for each loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Call[Any]]] = {}
    for call in calls:
        by_loop.setdefault(call.loop, []).append(call)
    for loop, ready in by_loop.items():
        if loop.is_closed():
            # Whoever asked has gone with its loop; the database has what it has.
            continue
        loop.call_soon_threadsafe(_deliver_all, ready)


def _deliver_all(calls: list[Call[Any]]) -> None:
    for call in calls:
        call.deliver()
