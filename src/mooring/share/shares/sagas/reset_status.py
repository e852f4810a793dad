"""Set a share's status by hand, ending whatever is at work on it (`reset_status`).

Whoever was at work on it may have been ended anywhere. So the status stands at once, and rules and
snapshots that nobody brings to their end any more are in error. Then the storage lets nobody in by
such a rule, and is asked what it has: a share that it has no more is `error_deleting`, and its size
follows the storage. No call of whoever was ended comes late: each of these raises the fence.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.saga import journal
from mooring.saga.define import Each, Run, Saga, Step, Together, exclusive
from mooring.share.access import rule_rows
from mooring.share.quotas import quota
from mooring.share.services import pools
from mooring.share.shares import statuses
from mooring.share.snapshots import snapshot_rows
from mooring.share.tables import ShareRow

if TYPE_CHECKING:
    from mooring.share.service import Share


class ResetStatus(Struct, frozen=True, kw_only=True):
    """The notes. `rules` are those that nobody brings to their end any more."""

    share_id: str
    status: str
    pool: str = ""
    """Where the share lies; empty when it lies nowhere."""
    rules: list[str] = []
    is_unsure: bool = False
    """Whether the storage may have something else than the row says."""


def write_status(tx: Session, notes: ResetStatus, run: Run[Share]) -> ResetStatus | None:
    """Write what was asked for; a share that lies nowhere by now is in error all the same."""
    row = tx.get(ShareRow, notes.share_id, populate_existing=True)
    if row is None:
        return None
    now, was = run.now(), row.status
    quota.settle(tx, row.id)
    _end_snapshots(tx, row.id, now)
    status = "error" if row.pool is None and notes.status == "available" else notes.status
    statuses.change(tx, row.id, allowed=None, now=now, status=status)
    is_unsure = was in statuses.TRANSITIONAL or was.endswith("_error") or was == "error_deleting"
    rules = _end_rules(tx, row.id, now)
    return replace(notes, pool=row.pool or "", rules=rules, is_unsure=is_unsure)


def _end_rules(tx: Session, share_id: str, now: datetime) -> list[str]:
    ended = [rule for rule in rule_rows.of_share(tx, share_id) if _is_abandoned(tx, rule.saga_id)]
    for rule in ended:
        rule.state, rule.saga_id, rule.updated_at = rule_rows.ERROR, "", now
    return [rule.id for rule in ended]


def _end_snapshots(tx: Session, share_id: str, now: datetime) -> None:
    """Let snapshots whose saga was absorbed end badly: deleting them mends that."""
    for row in snapshot_rows.of_share(tx, share_id):
        if _is_abandoned(tx, row.saga_id):
            row.status = "error" if row.status == "creating" else "error_deleting"
            row.saga_id, row.updated_at = "", now


def _is_abandoned(tx: Session, saga_id: str) -> bool:
    mark = journal.load(tx, saga_id) if saga_id else None
    return bool(saga_id) and (mark is None or mark.state == "ended")


async def revoke_rule(notes: ResetStatus, rule_id: str, run: Run[Share]) -> None:
    """See that nobody is let in by a rule that is in error, and that no grant comes late."""
    if notes.pool:
        agent = await pools.agent_of(run, notes.pool)
        pool = pools.split(notes.pool)[2]
        await agent.revoke_access(notes.share_id, rule_id, pool, operation=run.operation)


async def look_at_storage(notes: ResetStatus, run: Run[Share]) -> Together | None:
    """See what the storage has, which no call of the operation that was ended will change any more.

    Where no data are there any more, nobody may take the share for one that can be used.
    """
    if not notes.pool or not notes.is_unsure:
        return None
    agent = await pools.agent_of(run, notes.pool)
    await agent.claim_share(notes.share_id, operation=run.operation)
    pool = pools.split(notes.pool)[2]
    await agent.forget_share_size(notes.share_id, pool, operation=run.operation)
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
    Each("rules", lambda notes: notes.rules, Step("revoke_rule", revoke_rule, may_be_forgone=True)),
    Step("look_at_storage", look_at_storage, may_be_forgone=True),
    locks=lambda notes: (exclusive(f"share:{notes.share_id}"),),
    mode="preempt",
    answered_after="write_status",
    visible_after="write_status",
    pivot="write_status",
)
