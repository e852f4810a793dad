"""Set a share's status by hand, ending whatever is at work on it (`reset_status`).

Whoever was making or resizing it may have been ended anywhere. So the status stands at once, and
the storage is asked afterwards what it has: a share that it has no more is `error_deleting`, and
its size follows the storage.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.saga import journal
from mooring.saga.define import Run, Saga, Step, Together, exclusive
from mooring.share.access import rule_rows
from mooring.share.quotas import quota
from mooring.share.services import pools
from mooring.share.shares import statuses
from mooring.share.tables import ShareRow

if TYPE_CHECKING:
    from mooring.share.service import Share


class ResetStatus(Struct, frozen=True, kw_only=True):
    """The notes. `pool` is where the share lies, when it is unsure what the storage has."""

    share_id: str
    status: str
    pool: str = ""


def write_status(tx: Session, notes: ResetStatus, run: Run[Share]) -> ResetStatus | None:
    """Write what was asked for; rules that nobody brings to their end any more are in error."""
    row = tx.get(ShareRow, notes.share_id, populate_existing=True)
    if row is None:
        return None
    now, was = run.now(), row.status
    quota.settle(tx, row.id)
    _end_rules(tx, row.id, now)
    statuses.change(tx, row.id, allowed=None, now=now, status=notes.status)
    is_unsure = was in statuses.TRANSITIONAL or was.endswith("_error") or was == "error_deleting"
    return replace(notes, pool=row.pool) if is_unsure and row.pool else None


def _end_rules(tx: Session, share_id: str, now: datetime) -> None:
    for rule in rule_rows.of_share(tx, share_id):
        mark = journal.load(tx, rule.saga_id) if rule.saga_id else None
        if rule.saga_id and (mark is None or mark.state == "ended"):
            rule.state, rule.saga_id, rule.updated_at = rule_rows.ERROR, "", now


async def look_at_storage(notes: ResetStatus, run: Run[Share]) -> Together | None:
    """See what the storage has, which no call of the operation that was ended will change any more.

    Where no data are there any more, nobody may take the share for one that can be used.
    """
    if not notes.pool:
        return None
    agent = await pools.agent_of(run, notes.pool)
    await agent.claim_share(notes.share_id, operation=run.operation)
    found = await agent.show_share(notes.share_id)

    def show(tx: Session) -> None:
        gone = {"status": "error_deleting"}
        values = gone if found is None else {"size_gib": found.size_gb}
        statuses.change(tx, notes.share_id, allowed=None, now=run.now(), **values)

    return Together(show)


# It may have absorbed whoever was at work, so it owns the share from its first step on.
RESET_STATUS = Saga(
    "share.reset_status",
    ResetStatus,
    Step("write_status", write_status),
    Step("look_at_storage", look_at_storage, may_be_forgone=True),
    locks=lambda notes: (exclusive(f"share:{notes.share_id}"),),
    mode="preempt",
    answered_after="write_status",
    visible_after="write_status",
    pivot="write_status",
)
