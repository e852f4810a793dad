"""Who is in the way of a saga that wants their locks, and how one that insists gets past them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from mooring.errors import Conflict
from mooring.saga import journal, locks
from mooring.saga.define import REGISTRY, Saga
from mooring.saga.journal import Bookmark
from mooring.store.base import savepoint

T = TypeVar("T")


class HeldError(Conflict):
    """A lock is held by the saga `holder`, and the one that wanted it does not wait."""

    def __init__(self, public: str, holder: str, *, visible: bool, gives_way: bool) -> None:
        super().__init__(public, holder=holder)
        self.holder, self.visible, self.gives_way = holder, visible, gives_way


def gives_way(holder: Bookmark | None) -> bool:
    """Whether a saga says that a user may insist on something else."""
    saga = REGISTRY.get((holder.name, holder.version)) if holder else None
    return saga is not None and saga.gives_way


def is_carried_out(tx: Session, key: str, *sagas: Saga[Any]) -> bool:
    """Whether one of these sagas has a lock or waits for it, and nobody has asked it to end."""
    names = {saga.name for saga in sagas}
    marks = [journal.load(tx, one) for one in locks.holders(tx, key)]
    return any(
        mark.name in names and mark.heading == "forward" and not mark.abort
        for mark in marks
        if mark is not None
    )


def is_being_deleted(tx: Session, key: str, name: str, *deletions: Saga[Any]) -> bool:
    """Whether what has the status `deleting` goes anyway, by one of these sagas.

    `key` is its lock, `name` what users are told it is. Raises Conflict, busy, while whoever else
    is at work on it, a reset, is to end its deletion.
    """
    at_work = locks.holders(tx, key)
    if at_work and not is_carried_out(tx, key, *deletions):
        raise Conflict(
            f"{name} is being deleted, and operation {at_work[-1]} is to end that. Nothing was "
            "changed; delete it when that has ended.",
            busy=True,
        )
    return bool(at_work)


def insist_if_held(tx: Session, *, fn: Callable[[Session], T], insist: Callable[[Session], T]) -> T:
    """Insist where still nobody is in the way but who gives way: others may have come meanwhile.

    Raises HeldError when somebody else is.
    """
    try:
        with savepoint(tx):
            return fn(tx)
    except HeldError as error:
        if not error.gives_way:
            raise
    return insist(tx)
