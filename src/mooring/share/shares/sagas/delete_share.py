"""Delete a share: remove it from its pool, with its rules and what lies in it, and forget it.

Once it is being deleted there is no way back: what the storage refuses for good leaves it in
`error_deleting`, and deleting may be asked for again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.saga.define import Lock, Mode, Run, Saga, Step, exclusive
from mooring.share.access import rule_rows
from mooring.share.locks import locks
from mooring.share.quotas import quota
from mooring.share.services import pools
from mooring.share.shares import notices, statuses
from mooring.share.shares.story import Message, tell
from mooring.share.tables import ShareRow

if TYPE_CHECKING:
    from mooring.share.service import Share


class DeleteShare(Struct, frozen=True, kw_only=True):
    """The notes. `pool` is where the share lies; empty when it lies nowhere."""

    share_id: str
    pool: str = ""


def begin_deleting(tx: Session, notes: DeleteShare, run: Run[Share]) -> DeleteShare | None:
    """Read where the share lies: whoever was making it may have been ended before us.

    Whoever gave way to this one has said meanwhile what the share was then: a deletion that it
    cannot be deleted, a reset what an administrator wanted.
    """
    statuses.change(tx, notes.share_id, allowed=None, now=run.now(), status="deleting")
    row = tx.get(ShareRow, notes.share_id, populate_existing=True)
    if row is None or row.pool is None:
        return None
    quota.settle(tx, row.id)
    return replace(notes, pool=row.pool)


async def remove_storage(notes: DeleteShare, run: Run[Share]) -> None:
    """Remove the share from its pool, its rules first; one that is not there is fine."""
    if notes.pool:
        agent = await pools.agent_of(run, notes.pool)
        pool = pools.split(notes.pool)[2]
        await agent.delete_share(notes.share_id, pool, operation=run.operation)


def forget_share(tx: Session, notes: DeleteShare, run: Run[Share]) -> None:
    """Delete the row, and with it rules, export locations and what hid clients."""
    # Behind this step there is nothing left that its story could tell of.
    notices.send(tx, run.service, notes.share_id, "delete.end")
    row = tx.get(ShareRow, notes.share_id)
    if row is not None:
        locks.forget(tx, [row.id, *(rule.id for rule in rule_rows.of_share(tx, row.id))])
        tx.delete(row)


def show_error(tx: Session, notes: DeleteShare, run: Run[Share]) -> None:
    """Tell that the storage keeps the share, and of its rules that nobody knows."""
    now = run.now()
    statuses.change(tx, notes.share_id, allowed=("deleting",), now=now, status="error_deleting")
    if run.begun:
        rule_rows.let_fail(tx, notes.share_id, now)


def _explain(row: ShareRow, notes: DeleteShare, run: Run[Share]) -> Message:
    return "delete", "unknown"


def _locks(notes: DeleteShare) -> Sequence[Lock]:
    return (exclusive(f"share:{notes.share_id}"),)


def _define(name: str, mode: Mode) -> Saga[DeleteShare]:
    return Saga(
        name,
        DeleteShare,
        # Undone only when it gives up waiting for whoever is at work on the share.
        Step("begin_deleting", begin_deleting, undo=show_error),
        Step("remove_storage", remove_storage, may_be_forgone=True),
        Step("forget_share", forget_share),
        locks=_locks,
        mode=mode,
        pivot="begin_deleting",
        failed_end=[Step("show_error", show_error)],
        residue=("shares", "messages"),
        story=tell(begun="delete.start", explain=_explain),
    )


# Rules that are on their way to the storage get there first.
DELETE_SHARE = _define("share.delete_share", "wait")
# Whoever is at work on the share is undone first, or absorbed: removing is what its undo would do.
FORCE_DELETE_SHARE = _define("share.force_delete_share", "preempt")
