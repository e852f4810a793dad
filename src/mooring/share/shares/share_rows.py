"""Rows of shares: who may see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy.orm import Session

from mooring.errors import Forbidden, NotFound
from mooring.share.tables import ShareRow

if TYPE_CHECKING:
    from mooring.who import Who


def visible(tx: Session, who: Who, share_id: str) -> ShareRow:
    """Return the share that this caller may read; a public one is everybody's. Raises NotFound."""
    row = tx.get(ShareRow, share_id, populate_existing=True)
    if row is None or not (row.is_public or _is_own(who, row)):
        raise _no_share(share_id)
    return row


def visible_to_change(tx: Session, who: Who, share_id: str) -> ShareRow:
    """Return the share that this caller may change.

    Raises NotFound, and Forbidden for another project's public share, which the caller may read.
    """
    row = visible(tx, who, share_id)
    if not _is_own(who, row):
        raise Forbidden(
            f"Share {share_id} is another project's. It is public, so that everybody may read it, "
            "and nobody else may change it. Nothing was changed.",
        )
    return row


def _is_own(who: Who, row: ShareRow) -> bool:
    return who.is_admin or row.project_id == who.project_id


def _no_share(share_id: str) -> NotFound:
    return NotFound(f"Share {share_id} could not be found.")
