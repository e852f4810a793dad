"""One function on its way through a database's thread and back to the event loop that asked."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import Any, Generic, TypeVar
from weakref import ref

from sqlalchemy.orm import Session

from mooring.errors import Bug
from mooring.store import failures

T = TypeVar("T")
_CALLBACKS = "mooring.after_commit"
_CHANGED = "mooring.changed"
_log = logging.getLogger(__name__)


def after_commit(tx: Session, callback: Callable[[], None]) -> None:
    """Run `callback` on the caller's event loop once the transaction of `tx` has committed.

    Callbacks run in the order of their registration, before the writer's own `await` returns, also
    when the writer was cancelled meanwhile. After a rollback of the transaction, or of the
    `savepoint` inside it that they were registered in, they never run.
    """
    tx.info.setdefault(_CALLBACKS, []).append(callback)


def note_changed(tx: Session, row: object) -> None:
    """Have a loaded object that shows a change read anew when a `savepoint` takes that back.

    For changes that were not made by the session itself, which knows of its own only.
    """
    tx.info.setdefault(_CHANGED, []).append(ref(row))


@contextmanager
def savepoint(tx: Session) -> Generator[None]:
    """Run a part of a transaction that an error takes back alone, its callbacks with it."""
    callbacks: list[Callable[[], None]] = tx.info.setdefault(_CALLBACKS, [])
    changed: list[ref[object]] = tx.info.setdefault(_CHANGED, [])
    callbacks_before, changed_before = len(callbacks), len(changed)
    try:
        with tx.begin_nested():
            yield
    except BaseException:
        del callbacks[callbacks_before:]
        for row in [found() for found in changed[changed_before:]]:
            if row is not None and row in tx:
                tx.expire(row)
        raise


class Call(Generic[T]):
    """A function for the database, the future that waits for it, and what came of it.

    A caller who is cancelled stops waiting; the function runs all the same, wholly or not at all.
    """

    def __init__(self, fn: Callable[[Session], T]) -> None:
        self.fn = fn
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self.error: BaseException | None = None
        self._result: list[T] = []
        self._callbacks: list[Callable[[], None]] = []

    def run(self, tx: Session) -> None:
        """Run the function in `tx`, and keep its result and its callbacks until the commit."""
        result = self.fn(tx)
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
