"""Who may advance a saga: on SQLite the one process there is, on PostgreSQL whoever has the lease.

On SQLite a file lock on the state directory has already proved that no other process lives, so a
new one takes every saga over at once. On PostgreSQL a lease of 5 s is renewed every 1.5 s and
compared with the database's clock only. Either way a takeover raises the epoch, and whoever saves
with the old one learns that it has lost.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace
from sqlalchemy import (
    ColumnElement,
    DateTime,
    Table,
    bindparam,
    func,
    literal_column,
    select,
    update,
)
from sqlalchemy.orm import Session

from mooring.errors import Conflict
from mooring.saga import engines, locks
from mooring.saga.tables import SagaRow
from mooring.store.base import Store
from mooring.store.prepared import Prepared

if TYPE_CHECKING:
    from mooring.fence.operation import Operation
    from mooring.saga.define import Run

LEASE_S = 5.0
RENEW_S = 1.5
CLAIM_AT_ONCE = 100
_sagas = cast("Table", SagaRow.__table__)


def _database_time() -> ColumnElement[datetime]:
    return func.clock_timestamp(type_=DateTime(timezone=True))


_unfinished_ids = select(_sagas.c.id).where(_sagas.c.state != "ended").order_by(_sagas.c.created_at)
_unfinished: Prepared[str] = Prepared(_unfinished_ids, str)
_lapsed: Prepared[str] = Prepared(
    _unfinished_ids.where(_sagas.c.lease_until < _database_time())
    .limit(CLAIM_AT_ONCE)
    .with_for_update(skip_locked=True),
    str,
)
_gives_up = (_sagas.c.state == "locked") & (_sagas.c.abort > 0) & _sagas.c.wake_at.is_not(None)
_runnable: Prepared[tuple[str, int]] = Prepared(
    select(_sagas.c.id, _sagas.c.abort).where(
        _sagas.c.owner == bindparam("of_owner"), (_sagas.c.state == "ready") | _gives_up
    )
)
_waits = (_sagas.c.state == "parked") | (_sagas.c.state == "locked")
_resting: Prepared[tuple[str, datetime, datetime]] = Prepared(
    select(_sagas.c.id, _sagas.c.wake_at, _sagas.c.updated_at).where(
        _sagas.c.owner == bindparam("of_owner"), _waits, _sagas.c.wake_at.is_not(None)
    )
)


def is_shared(store: Store) -> bool:
    """Whether several processes may work on this store."""
    return store.kind == "postgresql"


def poll_s(store: Store) -> float:
    """Return how often to look for what another process did, in seconds."""
    return 0.2 if is_shared(store) else 5.0


def lease_end(store: Store, now: datetime) -> ColumnElement[datetime] | datetime:
    """Return when a lease taken now ends: by the database's clock where there are several of us."""
    if is_shared(store):
        return _database_time() + literal_column(f"interval '{LEASE_S} seconds'")
    return now + timedelta(days=36500)


def claim(tx: Session, store: Store, owner: str, *, everything: bool, now: datetime) -> list[str]:
    """Take over unfinished sagas whose owner is gone; return their ids, oldest first.

    With `everything` each unfinished saga is taken, whoever owned it. Those that wait for locks
    begin to wait anew: while nobody advanced sagas, no holder could end either.
    """
    found = (_unfinished if everything else _lapsed).all(tx)
    if found:
        mine = update(_sagas).where(_sagas.c.state != "ended")
        mine = mine if everything else mine.where(_sagas.c.id.in_(found))
        values: dict[str, Any] = {"owner": owner, "epoch": _sagas.c.epoch + 1}
        if is_shared(store):
            values["lease_until"] = lease_end(store, datetime.min)  # noqa: DTZ901  (unused there)
        tx.execute(mine.values(values))
        waiting = update(_sagas).where(
            _sagas.c.owner == owner,
            _sagas.c.id.in_(found),
            _sagas.c.state == "locked",
            _sagas.c.abort == 0,
            _sagas.c.wake_at.is_not(None),
        )
        patient_until = now + timedelta(seconds=locks.LOCK_WAIT_S)
        tx.execute(waiting.values(wake_at=patient_until, updated_at=now))
    return found


def renew(tx: Session, store: Store, owner: str, now: datetime) -> None:
    """Prolong the leases of all unfinished sagas of this owner, and say that it lives."""
    mine = update(_sagas).where(_sagas.c.owner == owner, _sagas.c.state != "ended")
    tx.execute(mine.values(lease_until=lease_end(store, now)))
    if is_shared(store):
        engines.beat(tx, owner)


def runnable(tx: Session, owner: str) -> list[tuple[str, int]]:
    """Return what other processes may have said to this owner's sagas: id, and how to abort.

    That is those that are ready, be it by a signal, and those that were to wait for locks and are
    to give up (`wake_at`).
    """
    return _runnable.all(tx, of_owner=owner)


def resting(tx: Session, owner: str) -> list[tuple[str, datetime, datetime]]:
    """Return what waits for a time, or for a lock until then: id, wake time, when it said so."""
    return _resting.all(tx, of_owner=owner)


def require_lease(tx: Session, run: Run[Any]) -> None:
    """Raise Conflict when the saga has another owner by now, or has ended: a sleeper woke late.

    What a step writes beside its bookmark, nothing else guards. The row is locked against a
    takeover until the transaction ends.
    """
    mine = select(SagaRow.epoch).where(SagaRow.id == run.saga_id, SagaRow.state != "ended")
    if tx.execute(mine.with_for_update(read=True)).scalar() != run.operation.epoch:
        raise Conflict("The operation was taken over by another process, which goes on with it.")


def as_owned_now(tx: Session, operation: Operation) -> Operation:
    """Return an operation as its saga's owner of now would name it, for who calls in its stead.

    What was written down under a former owner is refused wherever a later one has called, though
    for something else. The generation stays: whoever took the thing since is not to be overruled.
    """
    epoch = tx.execute(select(SagaRow.epoch).where(SagaRow.id == operation.saga)).scalar()
    return replace(operation, epoch=max(operation.epoch, epoch or 0))


def as_of_now(tx: Session, run: Run[Any]) -> Operation:
    """Return the operation of a step as one that comes later than all before, while it is ours.

    For what a later operation has fenced off and left, so that nobody else ends it. Raises Conflict
    as `require_lease` does.
    """
    number = locks.draw(tx)  # Before the bookmark's row is locked: see `locks.serialize`.
    require_lease(tx, run)
    return replace(run.operation, generation=number)
