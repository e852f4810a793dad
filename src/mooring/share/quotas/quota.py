"""What a project may take. Usage is summed up under a lock, never counted.

What an operation may take soon stands in reservations: rows of that operation, which count as used.
Limits are a project's, and within it also a user's and a share type's.
Source: facts/shared_file_systems.md 13.8.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct
from sqlalchemy import delete
from sqlalchemy.orm import Session

from mooring.errors import OverQuota
from mooring.share.quotas import limits_of, usage
from mooring.share.quotas.holding import hold
from mooring.share.quotas.limits_of import UNLIMITED
from mooring.share.quotas.usage import Scope
from mooring.share.tables import ReservationRow, ShareRow

_FORBIDDEN = 403


class More(Struct, frozen=True, kw_only=True):
    """What is to be taken: whose it is, and how much of which resources."""

    project_id: str
    user_id: str
    share_type_id: str
    amounts: Mapping[str, int]
    size_gib: int = 0
    """How big one share is to be; 0 when none is."""
    status: int | None = None
    """The status code of a refusal, where it is not the usual one."""


class Growth(Struct, frozen=True, kw_only=True):
    """A share that is to grow to `size_gib`, by the saga that owns what is reserved for it."""

    row: ShareRow
    size_gib: int
    saga_id: str
    now: datetime


def claim(tx: Session, more: More) -> None:
    """Hold the project's quota; raise OverQuota when it does not fit."""
    hold(tx, more.project_id)
    whole = Scope(more.project_id)
    for scope in (
        whole,
        Scope(more.project_id, user_id=more.user_id),
        Scope(more.project_id, share_type_id=more.share_type_id),
    ):
        _check(tx, scope, more)


def reserve(tx: Session, growth: Growth) -> None:
    """Write down what a share will take besides. Raises OverQuota when it does not fit.

    Manila answers that with 403, other than for a new share.
    """
    row = growth.row
    delta = growth.size_gib - row.size_gib
    more = More(
        project_id=row.project_id,
        user_id=row.user_id,
        share_type_id=row.share_type_id,
        amounts={"gigabytes": delta},
        size_gib=growth.size_gib,
        status=_FORBIDDEN,
    )
    claim(tx, more)
    tx.add(
        ReservationRow(
            id=str(uuid.uuid4()),
            share_id=row.id,
            project_id=row.project_id,
            user_id=row.user_id,
            share_type_id=row.share_type_id,
            delta_gib=delta,
            saga_id=growth.saga_id,
            created_at=growth.now,
        )
    )
    tx.flush()


def settle(tx: Session, share_id: str) -> None:
    """Let go of what is reserved for a share: its size counts it from now on, or nothing does."""
    tx.execute(delete(ReservationRow).where(ReservationRow.share_id == share_id))


def _check(tx: Session, scope: Scope, more: More) -> None:
    found, whose = limits_of.find(tx, scope), _name(scope)
    how: dict[str, Any] = {} if more.status is None else {"status": more.status}
    most = found["per_share_gigabytes"]
    if most != UNLIMITED and more.size_gib > most:
        raise OverQuota(
            f"ShareSizeExceedsLimit: Requested share size {more.size_gib}G is larger than the "
            f"{most}G that {whose} allows for one share. Nothing was changed; ask for less.",
            **how,
        )
    if all(found[resource] == UNLIMITED for resource in more.amounts):
        return
    taken = usage.find_taken(tx, scope)
    for resource, amount in more.amounts.items():
        if found[resource] != UNLIMITED and taken[resource] + amount > found[resource]:
            raise OverQuota(
                f"Requested {amount} exceeds the quota of {resource} of {whose}: it is "
                f"{found[resource]}, and {taken[resource]} are in use. Nothing was changed; "
                "delete what is not needed, or ask for a higher quota.",
                **how,
            )


def _name(scope: Scope) -> str:
    if scope.user_id:
        return "the user in this project"
    return "the share type in this project" if scope.share_type_id else "the project"
