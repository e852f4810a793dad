"""What was taken from users while tokens of before may still come.

A token has the roles that its user has at the moment, so what is taken goes from all of them at
once. What is given again would come back to those of before: their user meant them to end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import update

from mooring.identity.tables import RevocationRow, UserRow

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from sqlalchemy.orm import Session


def remember(tx: Session, *what: str, until: datetime) -> None:
    """Remember that something was taken, until no token of now is worth anything any more."""
    tx.merge(RevocationRow(audit_id=_name(what), forget_at=until))


def end_tokens(tx: Session, *what: str, of: Collection[str]) -> None:
    """End all tokens of the users who are given again what was taken from them."""
    # By a name that the caller made of what is given, and who may give that was asked before.
    taken = tx.get(RevocationRow, _name(what))
    if taken is None:
        return
    tx.delete(taken)
    tx.execute(
        update(UserRow)
        .where(UserRow.id.in_(of))
        .values(token_generation=UserRow.token_generation + 1)
    )


def _name(what: tuple[str, ...]) -> str:
    """Return what stands for it among the tokens that were ended: no audit id has colons."""
    return ":".join(what)
