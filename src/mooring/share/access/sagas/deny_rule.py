"""Deny an access rule: keep its client out, and forget the rule once that is so.

There is no way back from it: what the storage refuses for good leaves the rule in `error`, and
denying may be asked for again. Source: facts/shared_file_systems.md 3.2 and 4.5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.saga.define import Run, Saga, Step, Together, exclusive
from mooring.share.access import rule_rows
from mooring.share.locks import locks
from mooring.share.services import pools
from mooring.share.shares.story import Message, tell
from mooring.share.tables import RuleRow, ShareRow

if TYPE_CHECKING:
    from mooring.share.service import Share


class DenyRule(Struct, frozen=True, kw_only=True):
    """The notes. `pool` is where the share lies; empty before that was looked up."""

    share_id: str
    rule_id: str
    pool: str = ""


async def begin_denying(notes: DenyRule, run: Run[Share]) -> Together:
    """Tell that it is being denied.

    Not in the transaction of the request, behind which it is seen in the queue.
    """
    pool = await run.service.store.read(lambda tx: _find_pool(tx, notes))
    return Together(lambda tx: _show_denying(tx, notes, run), replace(notes, pool=pool))


def _find_pool(tx: Session, notes: DenyRule) -> str:
    share = tx.get(ShareRow, notes.share_id)
    return "" if share is None else share.pool or ""


def _show_denying(tx: Session, notes: DenyRule, run: Run[Share]) -> None:
    row = tx.get(RuleRow, notes.rule_id)
    if row is not None:
        row.state, row.updated_at = rule_rows.DENYING, run.now()


async def revoke(notes: DenyRule, run: Run[Share]) -> None:
    """Keep the client out; a rule that the storage does not have is fine."""
    if notes.pool:
        agent = await pools.agent_of(run, notes.pool)
        pool = pools.split(notes.pool)[2]
        await agent.revoke_access(notes.share_id, notes.rule_id, pool, operation=run.operation)


def forget_rule(tx: Session, notes: DenyRule, run: Run[Share]) -> None:
    """Delete the rule, which is gone for its client, and its locks."""
    row = tx.get(RuleRow, notes.rule_id)
    if row is not None:
        locks.forget(tx, [row.id])
        tx.delete(row)


def show_error(tx: Session, notes: DenyRule, run: Run[Share]) -> None:
    """Tell that the client may still be let in."""
    row = tx.get(RuleRow, notes.rule_id)
    if row is not None:
        row.state, row.saga_id, row.updated_at = rule_rows.ERROR, "", run.now()


def _explain(row: ShareRow, notes: DenyRule, run: Run[Share]) -> Message:
    return "access", "unknown"


DENY_RULE = Saga(
    "share.deny_rule",
    DenyRule,
    # Undone only when it gives up waiting for whoever is at work on the share.
    Step("begin_denying", begin_denying, undo=show_error),
    Step("revoke", revoke, may_be_forgone=True),
    Step("forget_rule", forget_rule),
    locks=lambda notes: (exclusive(f"share:{notes.share_id}"),),
    mode="wait",
    pivot="begin_denying",
    failed_end=[Step("show_error", show_error)],
    residue=("access_rules", "messages"),
    story=tell(explain=_explain),
)
