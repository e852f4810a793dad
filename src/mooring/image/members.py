"""Members: the projects that an image is shared with.

Source: facts/identity_image_placement.md 8.3.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from mooring import limits
from mooring.errors import Conflict, Forbidden, NotFound, OverQuota
from mooring.image import images
from mooring.image.tables import MemberRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.image.images import Require
    from mooring.image.records import Record
    from mooring.who import Who

STATUSES = ("pending", "accepted", "rejected")


class Member(Struct, frozen=True):
    """One project that an image is shared with."""

    image_id: str
    member_id: str
    status: str
    created_at: datetime
    updated_at: datetime


def listed(tx: Session, who: Who, image_id: str, *, require: Require) -> list[Member]:
    """Return the members of an image: all to its owner, to another its own membership alone."""
    image = images.visible(tx, who, image_id)
    require("get_members", image.target())
    query = _query(image_id).order_by(MemberRow.member_id)
    if not _owns(who, image):
        query = query.where(MemberRow.member_id == who.project_id)
    return [Member(*row) for row in tx.execute(query)]


def find(tx: Session, who: Who, image_id: str, member_id: str, *, require: Require) -> Member:
    """Return one member. Raises NotFound, also to those whom it does not concern."""
    image = images.visible(tx, who, image_id)
    require("get_member", image.target())
    if not _owns(who, image) and member_id != who.project_id:
        raise _absent(image_id, member_id)
    return _read(tx, image_id, member_id)


def add(
    tx: Session, who: Who, image_id: str, member_id: str, *, now: datetime, require: Require
) -> Member:
    """Share an image with a project. Raises NotFound, Forbidden, Conflict, OverQuota."""
    image = images.changeable(tx, who, image_id)
    require("add_member", image.target())
    if image.visibility != "shared":
        raise Forbidden(
            f"Image {image_id} is {image.visibility}: only a shared image has members. Set its "
            "visibility to shared first."
        )
    count = select(func.count()).select_from(MemberRow).where(MemberRow.image_id == image_id)
    if (tx.scalar(count) or 0) >= limits.IMAGE_MEMBERS:
        raise OverQuota(
            f"Image {image_id} has {limits.IMAGE_MEMBERS} members, the most there can be. Remove "
            "one first."
        )
    values = {"status": "pending", "created_at": now, "updated_at": now}
    try:
        with tx.begin_nested():
            tx.execute(insert(MemberRow).values(image_id=image_id, member_id=member_id, **values))
    except IntegrityError as error:
        raise Conflict(f"Image {image_id} is shared with project {member_id} already.") from error
    return _read(tx, image_id, member_id)


def set_status(
    tx: Session,
    who: Who,
    image_id: str,
    member_id: str,
    *,
    status: str,
    now: datetime,
    require: Require,
) -> Member:
    """Accept or reject a shared image. Raises NotFound; Forbidden but for the receiver."""
    image = images.visible(tx, who, image_id)
    # Nobody accepts in the name of another: the target is the member's project.
    require("modify_member", {**image.target(), "member_id": member_id})
    mine = (MemberRow.image_id == image_id) & (MemberRow.member_id == member_id)
    change = update(MemberRow).where(mine).values(status=status, updated_at=now)
    if tx.scalar(change.returning(MemberRow.member_id)) is None:
        raise _absent(image_id, member_id)
    return _read(tx, image_id, member_id)


def remove(tx: Session, who: Who, image_id: str, member_id: str, *, require: Require) -> None:
    """Stop to share an image with a project. Raises NotFound, Forbidden."""
    image = images.visible(tx, who, image_id)
    require("delete_member", image.target())
    mine = (MemberRow.image_id == image_id) & (MemberRow.member_id == member_id)
    gone = delete(MemberRow).where(mine).returning(MemberRow.member_id)
    if tx.scalar(gone) is None:
        raise _absent(image_id, member_id)


def _read(tx: Session, image_id: str, member_id: str) -> Member:
    row = tx.execute(_query(image_id).where(MemberRow.member_id == member_id)).first()
    if row is None:
        raise _absent(image_id, member_id)
    return Member(*row)


def _query(image_id: str) -> Any:
    table = MemberRow
    return select(
        table.image_id, table.member_id, table.status, table.created_at, table.updated_at
    ).where(table.image_id == image_id)


def _owns(who: Who, image: Record) -> bool:
    return who.is_admin or image.owner == who.project_id


def _absent(image_id: str, member_id: str) -> NotFound:
    return NotFound(f"Image {image_id[:64]} is not shared with project {member_id[:64]}.")
