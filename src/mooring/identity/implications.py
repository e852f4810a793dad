"""Roles that imply others: whoever has the one has the other.

Source: facts/identity_image_placement.md 4.3 and 5.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import select

from mooring.errors import Forbidden, Invalid, NotFound
from mooring.identity import losses, roles, rows
from mooring.identity.tables import ImplicationRow, RoleRow

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from sqlalchemy.orm import Session


def create(tx: Session, prior_id: str, implied_id: str) -> None:
    """Let a role imply another; it may do so already.

    Where it ceased to while tokens of before may still come, those of its holders end: they would
    have the implied role again. Raises NotFound; Invalid for a role that implies itself; Forbidden
    for `admin`, which nobody is to get in passing.
    """
    roles.find(tx, prior_id)
    implied = roles.find(tx, implied_id)
    if prior_id == implied_id:
        raise Invalid(f"The role '{implied.name}' cannot imply itself. Nothing was changed.")
    if implied.name.lower() == roles.ADMIN:
        raise Forbidden(
            f"No role may imply '{implied.name}', which rules the cloud. Nothing was changed; "
            "grant it by name."
        )
    if losses.forget(tx, *_words(prior_id, implied_id)):
        losses.end_tokens_by_roles(tx, roles.implying(tx, prior_id))
    tx.merge(ImplicationRow(prior_role_id=prior_id, implied_role_id=implied_id))
    tx.flush()


def find(tx: Session, prior_id: str, implied_id: str) -> tuple[RoleRow, RoleRow]:
    """Return a role and one that it implies directly. Raises NotFound."""
    prior, implied = roles.find(tx, prior_id), roles.find(tx, implied_id)
    _row(tx, prior_id, implied_id)
    return prior, implied


def remove(tx: Session, prior_id: str, implied_id: str, *, until: datetime) -> None:
    """Let a role no longer imply another. Raises NotFound when it does not.

    `until`: when every token of now is worth nothing any more.
    """
    roles.find(tx, prior_id)
    roles.find(tx, implied_id)
    rows.remove(tx, _row(tx, prior_id, implied_id))
    losses.remember(tx, *_words(prior_id, implied_id), until=until)


def implied_by(tx: Session, prior_id: str) -> Sequence[RoleRow]:
    """Return the roles that a role implies directly, by name."""
    query = (
        select(RoleRow)
        .join(ImplicationRow, ImplicationRow.implied_role_id == RoleRow.id)
        .where(ImplicationRow.prior_role_id == prior_id)
        .order_by(RoleRow.name)
    )
    return tx.scalars(query).all()


def _words(prior_id: str, implied_id: str) -> tuple[str, ...]:
    return "implies", prior_id, implied_id


def _row(tx: Session, prior_id: str, implied_id: str) -> ImplicationRow:
    # Both roles have been found: this says no more than that one implies the other.
    row = tx.get(ImplicationRow, (prior_id, implied_id))
    if row is None:
        raise NotFound(f"{prior_id} does not imply {implied_id}.")
    return row
