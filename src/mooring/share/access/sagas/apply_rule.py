"""Apply an access rule: let its client mount the share.

The request was answered when the rule was written down. A failure leaves the rule in `error`, and
nobody in: it is denied, and asked for again. Rules of one share are applied and denied one after
the other. Source: facts/shared_file_systems.md 3.2 and 4.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy.orm import Session

from mooring.agent_api.shares import AccessLevel, AccessRule, AccessType
from mooring.errors import Invalid
from mooring.saga.define import Run, Saga, Step, Together, exclusive
from mooring.share.access import rule_rows
from mooring.share.services import pools
from mooring.share.shares.story import Message, tell
from mooring.share.tables import RuleRow, ShareRow

if TYPE_CHECKING:
    from mooring.share.service import Share

_TAKES = {"NFS": "ip", "CEPHFS": "cephx"}
"""Which type of rules a protocol takes."""


class ApplyRule(Struct, frozen=True, kw_only=True):
    """The notes. `pool` is where the share lies; empty when nothing is to be done any more."""

    share_id: str
    rule_id: str
    pool: str = ""


async def begin_applying(notes: ApplyRule, run: Run[Share]) -> Together | None:
    """Tell that it is being applied, unless it is to be denied by now.

    Not in the transaction of the request, whose answer shows it in the queue.
    """
    pool = await run.service.store.read(lambda tx: _find_pool(tx, notes))
    if not pool:
        return None
    return Together(lambda tx: _show_applying(tx, notes, run), replace(notes, pool=pool))


def _find_pool(tx: Session, notes: ApplyRule) -> str:
    row, share = tx.get(RuleRow, notes.rule_id), tx.get(ShareRow, notes.share_id)
    is_wanted = row is not None and row.state in {rule_rows.QUEUED_TO_APPLY, rule_rows.APPLYING}
    return share.pool or "" if is_wanted and share is not None else ""


def _show_applying(tx: Session, notes: ApplyRule, run: Run[Share]) -> None:
    row = tx.get(RuleRow, notes.rule_id)
    if row is not None and row.state == rule_rows.QUEUED_TO_APPLY:
        row.state, row.updated_at = rule_rows.APPLYING, run.now()


def show_error(tx: Session, notes: ApplyRule, run: Run[Share]) -> None:
    """Tell that nobody was let in."""
    row = tx.get(RuleRow, notes.rule_id)
    if row is not None and row.state in {rule_rows.QUEUED_TO_APPLY, rule_rows.APPLYING}:
        row.state, row.saga_id, row.updated_at = rule_rows.ERROR, "", run.now()


async def grant(notes: ApplyRule, run: Run[Share]) -> Together | None:
    """Let the client in; what it needs besides is kept sealed. Raises Invalid for a wrong type."""
    wanted = await run.service.store.read(lambda tx: _find_wanted(tx, notes))
    if wanted is None:
        return None
    agent = await pools.agent_of(run, notes.pool)
    granted = await agent.grant_access(
        notes.share_id, notes.rule_id, wanted, operation=run.operation
    )
    key = granted.access_key
    sealed = None if key is None else run.service.sealer.seal(key.encode())
    return Together(lambda tx: _keep_key(tx, notes, sealed))


def _find_wanted(tx: Session, notes: ApplyRule) -> AccessRule | None:
    row, share = tx.get(RuleRow, notes.rule_id), tx.get(ShareRow, notes.share_id)
    if not notes.pool or row is None or share is None:
        return None
    if row.access_type != _TAKES[share.protocol]:
        raise Invalid(
            f"Shares of protocol {share.protocol} take access rules of type "
            f"{_TAKES[share.protocol]} only, and this one is of type {row.access_type}. Nobody was "
            "let in; delete the rule.",
        )
    return AccessRule(
        pool=pools.split(notes.pool)[2],
        type=cast("AccessType", row.access_type),
        to=row.client,
        level=cast("AccessLevel", row.access_level),
        project_id=share.project_id,
    )


def _keep_key(tx: Session, notes: ApplyRule, sealed: bytes | None) -> None:
    row = tx.get(RuleRow, notes.rule_id)
    if row is not None:
        row.access_key = sealed


async def revoke(notes: ApplyRule, run: Run[Share]) -> Together | None:
    """See that nobody is let in by it."""
    if not notes.pool:
        return None
    agent = await pools.agent_of(run, notes.pool)
    pool = pools.split(notes.pool)[2]
    await agent.revoke_access(notes.share_id, notes.rule_id, pool, operation=run.operation)
    return Together(lambda tx: _keep_key(tx, notes, None))


def show_active(tx: Session, notes: ApplyRule, run: Run[Share]) -> None:
    """Tell that the client is let in. A rule that is to be denied meanwhile waits for that."""
    row = tx.get(RuleRow, notes.rule_id)
    if row is not None and row.state == rule_rows.APPLYING:
        row.state, row.saga_id, row.updated_at = rule_rows.ACTIVE, "", run.now()


def _explain(row: ShareRow, notes: ApplyRule, run: Run[Share]) -> Message:
    return "access", "client"


APPLY_RULE = Saga(
    "share.apply_rule",
    ApplyRule,
    Step("begin_applying", begin_applying, undo=show_error),
    Step("grant", grant, undo=revoke),
    Step("show_active", show_active),
    locks=lambda notes: (exclusive(f"share:{notes.share_id}"),),
    mode="wait",
    visible_after="show_active",
    residue=("access_rules", "messages"),
    story=tell(explain=_explain),
)
