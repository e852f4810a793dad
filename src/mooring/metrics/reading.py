"""What the metrics are made of, read at one time from the databases and from this process."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from sqlalchemy import case, func, or_, select
from sqlalchemy.orm import Session

from mooring.fence.debts import DebtRow
from mooring.saga.tables import SagaRow
from mooring.services import SERVICES
from mooring.timings import Timing
from mooring.web.request_times import Place, RequestTimes

if TYPE_CHECKING:
    from mooring.clock import Clock
    from mooring.fleet.fleet import Fleet
    from mooring.store.base import Store


class Work(Struct, frozen=True):
    """Operations of one kind that have not ended, in one state."""

    service: str
    kind: str
    state: str
    count: int
    oldest_s: float
    stuck: int
    failures: int
    """Attempts to undo that failed."""


class Owed(Struct, frozen=True):
    """What one host owes, by the books of one service."""

    service: str
    host: str
    count: int
    oldest_s: float


class Seen(Struct, frozen=True, kw_only=True):
    """One reading."""

    work: list[Work]
    owed: list[Owed]
    silent_s: dict[tuple[str, str], float]
    """Since when hosts have not answered, by service and host."""
    certified_s: dict[str, float]
    """For how long the certificates of hosts on other machines are still valid."""
    commits: dict[str, Timing]
    """How long commits took, by service."""
    requests: dict[Place, Timing]
    """How long requests took, by their place."""
    answers: dict[tuple[Place, int], int]
    """How many requests there were, by place and status code."""


class Watched(Protocol):
    """A running cloud."""

    stores: Mapping[str, Store]
    requests: RequestTimes
    fleet: Fleet | None

    @property
    def clock(self) -> Clock:
        """Its time."""
        ...


async def read(watched: Watched) -> Seen:
    """Read everything once. Raises Unavailable when a database does not answer."""
    now = watched.clock.now()
    work: list[Work] = []
    owed: list[Owed] = []
    silent_s: dict[tuple[str, str], float] = {}
    for each in (each for each in SERVICES if each.name in watched.stores):
        name, store = each.name, watched.stores[each.name]
        if each.take_sagas is not None:
            work += await store.read(lambda tx, name=name: _work(tx, name, now))
            owed += await store.read(lambda tx, name=name: _owed(tx, name, now))
        if each.hosts_seen is not None:
            for host, at in (await store.read(each.hosts_seen)).items():
                silent_s[name, host] = _age(at, now)
    return Seen(
        work=work,
        owed=owed,
        silent_s=silent_s,
        certified_s=await watched.fleet.certified_s() if watched.fleet else {},
        commits={name: store.commit_times for name, store in watched.stores.items()},
        requests=dict(watched.requests.times),
        answers=dict(watched.requests.answers),
    )


def _work(tx: Session, service: str, now: datetime) -> list[Work]:
    # `leaving` and `owing` try what comes instead of an undo, or beside it.
    unwinding = SagaRow.heading == "back"
    columns = (
        SagaRow.name,
        SagaRow.state,
        func.count(),
        func.min(SagaRow.created_at),
        func.sum(case((SagaRow.stuck, 1), else_=0)),
        func.sum(case((unwinding, SagaRow.attempts), else_=0)),
    )
    # Two ranges instead of "is not": the index on the state serves them, however many have ended.
    living = or_(SagaRow.state < "ended", SagaRow.state > "ended")
    rows = tx.execute(select(*columns).where(living).group_by(SagaRow.name, SagaRow.state))
    return [
        Work(service, kind, state, count, _age(oldest, now), int(stuck), int(failures))
        for kind, state, count, oldest, stuck, failures in rows
    ]


def _owed(tx: Session, service: str, now: datetime) -> list[Owed]:
    columns = (DebtRow.host, func.count(), func.min(DebtRow.created_at))
    rows = tx.execute(select(*columns).group_by(DebtRow.host))
    return [Owed(service, host, count, _age(oldest, now)) for host, count, oldest in rows]


def _age(since: datetime, now: datetime) -> float:
    return max(0.0, (now - since).total_seconds())
