"""Rows of access rules: their states, and what they come to for a share.

Source: facts/shared_file_systems.md 3.2 and 3.3.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from mooring.share.tables import RuleRow

QUEUED_TO_APPLY, APPLYING, ACTIVE = "queued_to_apply", "applying", "active"
QUEUED_TO_DENY, DENYING, ERROR = "queued_to_deny", "denying", "error"
TRANSITIONAL = (QUEUED_TO_APPLY, APPLYING, QUEUED_TO_DENY, DENYING)
"""States that only a saga of this service leads out of."""


def of_share(tx: Session, share_id: str) -> list[RuleRow]:
    """Return a share's rules, oldest first."""
    tx.flush()
    query = select(RuleRow).where(RuleRow.share_id == share_id)
    return list(tx.execute(query.order_by(RuleRow.created_at, RuleRow.id)).scalars())


def statuses_of(tx: Session, share_ids: Collection[str]) -> dict[str, str]:
    """Return what the rules of shares come to, by the share's id."""
    query = select(RuleRow.share_id, RuleRow.state).where(RuleRow.share_id.in_(share_ids))
    states: dict[str, list[str]] = {share_id: [] for share_id in share_ids}
    for share_id, state in tx.execute(query):
        states[share_id].append(state)
    return {share_id: status_of(found) for share_id, found in states.items()}


def status_of(states: Iterable[str]) -> str:
    """Return `error` if one is in error, `syncing` if one is on its way, and else `active`."""
    found = set(states)
    if ERROR in found:
        return ERROR
    return "syncing" if found.intersection(TRANSITIONAL) else ACTIVE


def let_fail(tx: Session, share_id: str, now: datetime) -> None:
    """Put all rules of a share into error that no operation is at work on."""
    idle = update(RuleRow).where(RuleRow.share_id == share_id, RuleRow.saga_id == "")
    tx.execute(idle.values(state=ERROR, updated_at=now))
