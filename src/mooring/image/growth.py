"""What keeps the tables of the image service from growing without end."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from mooring.image.service import Image
from mooring.image.tables import (
    FormerImageRow,
    ImageRow,
    MemberRow,
    PropertyRow,
    TagRow,
    UploadRow,
)
from mooring.store import limits
from mooring.store.growth import Bound, count_gone
from mooring.store.limits import PRUNE_AT_ONCE


class FormerIds:
    """Of the ids of images that a project has deleted, forgets all but the newest `most`.

    Whoever wants another project's former id forgotten would have to delete images of that
    project. What is nobody's stays.
    """

    def __init__(self, most: int) -> None:
        self._most = most

    def find(self, service: object, tx: Session, now: datetime) -> Sequence[Any]:
        many = select(FormerImageRow.owner, func.count()).where(FormerImageRow.owner != "")
        over = many.group_by(FormerImageRow.owner).having(func.count() > self._most).limit(1)
        found = tx.execute(over).first()
        if found is None:
            return []
        owner, count = found
        mine = select(FormerImageRow.id).where(FormerImageRow.owner == owner)
        oldest = mine.order_by(FormerImageRow.deleted_at, FormerImageRow.id)
        return list(tx.scalars(oldest.limit(min(count - self._most, PRUNE_AT_ONCE))))

    def drop(self, tx: Session, found: Sequence[Any]) -> int:
        return count_gone(tx, delete(FormerImageRow).where(FormerImageRow.id.in_(found)))


BOUNDS: tuple[Bound[Image], ...] = (
    Bound(ImageRow, "gone with the image"),
    Bound(TagRow, "`IMAGE_TAGS` of an image"),
    Bound(PropertyRow, "`IMAGE_PROPERTIES` of an image"),
    Bound(MemberRow, "`IMAGE_MEMBERS` of an image"),
    Bound(UploadRow, "while the upload lasts; of a process that died for `IMAGE_LEASE_S`"),
    Bound(
        FormerImageRow,
        "of each project the newest `IMAGE_FORMER_IDS`: others' make none go (OSSN-0075)",
        FormerIds(limits.IMAGE_FORMER_IDS),
    ),
)
