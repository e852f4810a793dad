"""Access rules: who may ask for them, and when. Source: facts/shared_file_systems.md 4.

Policy is checked by the route. Errors: NotFound for what the caller may not see, Invalid for a
request or a state that forbids it (Manila answers both with 400).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from mooring import labels
from mooring.errors import Invalid, NotFound
from mooring.fence import table as fence
from mooring.fence.table import Answer
from mooring.row_limits import SHARE_RULES
from mooring.share.access import clients, rule_rows
from mooring.share.access.sagas.apply_rule import APPLY_RULE, ApplyRule
from mooring.share.access.sagas.deny_rule import DENY_RULE, DenyRule
from mooring.share.locks import locks
from mooring.share.shares import share_rows, statuses
from mooring.share.tables import RuleRow, ShareRow

if TYPE_CHECKING:
    from mooring.share.locks.locks import Action
    from mooring.share.service import Asked
    from mooring.who import Who

_RESOURCE_LENGTH = 255
"""Of what the fence files calls under."""


class NewRule(Struct, frozen=True, kw_only=True):
    """What `allow_access` asks for, the request's form already checked."""

    access_type: str
    access_to: str
    client: str
    """What tells the client from others of its type."""
    access_level: str = "rw"
    metadata: dict[str, str] = {}
    is_new: bool = True
    """Whether a rule may be added while others are in error (from 2.28 on)."""
    locked: tuple[Action, ...] = ()
    """What of it is locked at once."""
    lock_reason: str | None = None


def visible(tx: Session, who: Who, rule_id: str) -> tuple[RuleRow, ShareRow]:
    """Return a rule that this caller may see, and its share. Raises NotFound."""
    row = tx.get(RuleRow, rule_id, populate_existing=True)
    if row is not None:
        # The rules of a public share are its owner's business.
        share = tx.get_one(ShareRow, row.share_id)
        if who.is_admin or share.project_id == who.project_id:
            return row, share
    raise NotFound(f"Share access rule {rule_id} could not be found.")


async def allow(asked: Asked, share_id: str, wanted: NewRule) -> str:
    """Write a rule down, start what applies it, and return its id.

    A service that asks again by the same operation gets the rule that it made, which may be gone;
    one that has undone the operation gets none any more.
    """
    resource = f"share:{share_id}/{wanted.access_type}:{wanted.client}"[:_RESOURCE_LENGTH]

    def begin(tx: Session) -> str:
        # Several servers rely on one rule, each under a lock of its own.
        earlier = fence.admit(tx, asked.operation, resource, verb="POST", shared=True)
        if earlier is not None:
            return str(earlier.body)
        share = share_rows.visible_to_change(tx, asked.who, share_id)
        clients.check_project(wanted.access_type, wanted.client, share.project_id)
        _check_unknown(tx, share, wanted)
        _check_room(tx, share)
        _check_share(share)
        _check_health(tx, share, wanted)
        row = _add(tx, asked, share, wanted)
        _lock(tx, asked, row, wanted)
        notes = ApplyRule(share_id=share.id, rule_id=row.id)
        row.saga_id = asked.share.sagas.start(tx, APPLY_RULE, notes, who=asked.who)
        answer = Answer(body=row.id)
        fence.record(tx, asked.operation, resource, answer, [row.id], verb="POST")
        return row.id

    return await asked.share.sagas.submit(begin)


def _add(tx: Session, asked: Asked, share: ShareRow, wanted: NewRule) -> RuleRow:
    row = RuleRow(
        id=str(uuid.uuid4()),
        share_id=share.id,
        access_type=wanted.access_type,
        access_to=wanted.access_to,
        client=wanted.client,
        access_level=wanted.access_level,
        state=rule_rows.QUEUED_TO_APPLY,
        labels=labels.merge({}, wanted.metadata, whole=True),
        saga_id="",
        created_at=asked.share.clock.now(),
    )
    tx.add(row)
    tx.flush()
    return row


def _lock(tx: Session, asked: Asked, row: RuleRow, wanted: NewRule) -> None:
    for action in wanted.locked:
        new = locks.NewLock(
            kind="access_rule",
            resource_id=row.id,
            action=action,
            who=asked.who,
            reason=wanted.lock_reason,
            now=asked.share.clock.now(),
        )
        locks.add(tx, new)


async def deny(asked: Asked, share_id: str, rule_id: str, *, unrestrict: bool = False) -> None:
    """Start to deny a rule; one that is being denied already is fine.

    `unrestrict` passes over locks against its deletion that the caller may remove. The locks go
    with the rule.
    """
    resource = f"share_rule:{rule_id}"[:_RESOURCE_LENGTH]

    def begin(tx: Session) -> None:
        if fence.admit(tx, asked.operation, resource, verb="POST", shared=True) is not None:
            return
        fence.record(tx, asked.operation, resource, Answer(status=202), verb="POST")
        share = share_rows.visible_to_change(tx, asked.who, share_id)
        row = _of_share(tx, share, rule_id)
        locks.require_unrestricted(tx, asked.who, row.id, unrestrict=unrestrict)
        _check_share(share)
        if row.state in {rule_rows.QUEUED_TO_DENY, rule_rows.DENYING}:
            return
        row.state, row.updated_at = rule_rows.QUEUED_TO_DENY, asked.share.clock.now()
        tx.flush()
        notes = DenyRule(share_id=share.id, rule_id=row.id)
        row.saga_id = asked.share.sagas.start(tx, DENY_RULE, notes, who=asked.who)

    await asked.share.sagas.submit(begin)


def _of_share(tx: Session, share: ShareRow, rule_id: str) -> RuleRow:
    query = select(RuleRow).where(RuleRow.id == rule_id, RuleRow.share_id == share.id)
    row = tx.execute(query).scalar()
    if row is None:
        raise NotFound(f"Share access rule {rule_id} of share {share.id} could not be found.")
    return row


def _check_unknown(tx: Session, share: ShareRow, wanted: NewRule) -> None:
    query = select(RuleRow.id, RuleRow.state).where(
        RuleRow.share_id == share.id,
        RuleRow.access_type == wanted.access_type,
        RuleRow.client == wanted.client,
    )
    found = tx.execute(query).first()
    if found is not None:
        raise Invalid(
            f"Share access {wanted.access_type}:{wanted.access_to} exists: it is rule {found.id}, "
            f"which is {found.state}. Nothing was changed; a rule is denied, and gone, before "
            "another one can be made for the same client.",
        )


def _check_room(tx: Session, share: ShareRow) -> None:
    query = select(func.count()).select_from(RuleRow).where(RuleRow.share_id == share.id)
    if tx.execute(query).scalar_one() >= SHARE_RULES:
        raise Invalid(
            f"Share {share.id} has {SHARE_RULES} access rules, and no share has more. Nothing was "
            "changed; deny those that nobody needs, or name networks in place of addresses."
        )


def _check_share(share: ShareRow) -> None:
    if share.pool is None or share.status in statuses.TRANSITIONAL:
        raise Invalid(
            f"Invalid share: Access rules of share {share.id} cannot be changed while it is "
            f"{share.status}{'' if share.pool else ' and lies nowhere'}. Nothing was changed.",
        )


def _check_health(tx: Session, share: ShareRow, wanted: NewRule) -> None:
    states = (row.state for row in rule_rows.of_share(tx, share.id))
    if not wanted.is_new and rule_rows.status_of(states) == rule_rows.ERROR:
        raise Invalid(
            f"Invalid share: Rules of share {share.id} are in error. Nothing was changed; deny "
            "them first, or ask in microversion 2.28 or later.",
        )


async def set_metadata(asked: Asked, rule_id: str, items: Mapping[str, str]) -> dict[str, str]:
    """Merge metadata into a rule's; return what it has now."""

    def change(tx: Session) -> dict[str, str]:
        row, _ = visible(tx, asked.who, rule_id)
        row.labels = labels.merge(row.labels, items, whole=False)
        row.updated_at = asked.share.clock.now()
        return row.labels

    return await asked.share.store.write(change)


async def delete_metadata(asked: Asked, rule_id: str, key: str) -> None:
    """Remove one item. Raises NotFound when there is none."""

    def change(tx: Session) -> None:
        row, _ = visible(tx, asked.who, rule_id)
        row.labels = labels.without(row.labels, key, f"Share access rule {rule_id}")
        row.updated_at = asked.share.clock.now()

    await asked.share.store.write(change)
