"""Share types: what kind of shares there are, and who may use them."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, delete, exists, or_, select
from sqlalchemy.orm import Session

from mooring.errors import Conflict, Invalid, NotFound
from mooring.share.tables import QuotaRow, ShareRow, TypeAccessRow, TypeRow

if TYPE_CHECKING:
    from mooring.who import Who

_NAMESPACE = uuid.UUID("d2b7a0f8-8c1e-5b0e-9f55-1d8c9e0f7b34")
REQUIRED = "driver_handles_share_servers"
"""The one extra spec that every type has."""


def ensure_default(tx: Session, name: str, now: datetime) -> None:
    """Make the default type, if there is none of that name.

    Its id is the same whoever of several control planes makes it first, and not that of one which
    releases before let be renamed.
    """
    if tx.execute(select(TypeRow.id).where(TypeRow.name == name)).first() is not None:
        return
    type_id = uuid.uuid5(_NAMESPACE, name)
    while tx.get(TypeRow, str(type_id)) is not None:
        type_id = uuid.uuid5(type_id, name)
    tx.add(
        TypeRow(
            id=str(type_id),
            name=name,
            description="Default Share Type",
            is_public=True,
            extra_specs={REQUIRED: "False"},
            created_at=now,
        )
    )


def visible(tx: Session, who: Who, type_id: str) -> TypeRow:
    """Return the type of this id that the caller may see. Raises NotFound."""
    return _one(tx, who, TypeRow.id == type_id, type_id)


def named(tx: Session, who: Who, name_or_id: str) -> TypeRow:
    """Return the type of this name or id that the caller may use. Raises NotFound."""
    wanted = or_(TypeRow.name == name_or_id, TypeRow.id == name_or_id)
    return _one(tx, who, wanted, name_or_id)


def find(tx: Session, who: Who, *, public: bool | None = None) -> list[TypeRow]:
    """Return the types that the caller may see, newest first.

    With `public` those that its project may use; where that is False, the private ones.
    """
    wanted = _seen_by(who)
    if public is not None:
        wanted.append(_used_by(who.project_id) if public else TypeRow.is_public.is_(False))
    query = select(TypeRow).where(*wanted)
    return list(tx.execute(query.order_by(TypeRow.created_at.desc(), TypeRow.id)).scalars())


def projects(tx: Session, row: TypeRow) -> list[str]:
    """Return the projects that may use a private type."""
    query = select(TypeAccessRow.project_id).where(TypeAccessRow.share_type_id == row.id)
    return list(tx.execute(query.order_by(TypeAccessRow.project_id)).scalars())


def create(tx: Session, row: TypeRow) -> TypeRow:
    """Add a type. Raises Conflict when there is one of its name."""
    _check_name(tx, row.name, "")
    tx.add(row)
    tx.flush()
    return row


def rename(tx: Session, row: TypeRow, name: str) -> None:
    """Give a type another name. Raises Conflict when it is taken."""
    _check_name(tx, name, row.id)
    row.name = name


def remove(tx: Session, row: TypeRow) -> None:
    """Delete a type, and the quotas of it. Raises Invalid while shares are of it."""
    query = select(ShareRow.id).where(ShareRow.share_type_id == row.id)
    if tx.execute(query.limit(1)).first() is not None:
        raise Invalid(
            f"Share Type {row.id} is in use by shares and cannot be deleted. Delete them first.",
        )
    tx.execute(delete(QuotaRow).where(QuotaRow.share_type_id == row.id))
    tx.delete(row)


def _one(tx: Session, who: Who, wanted: ColumnElement[bool], name: str) -> TypeRow:
    row = tx.execute(select(TypeRow).where(wanted, *_seen_by(who))).scalars().first()
    if row is None:
        raise NotFound(f"Share type {name} could not be found.")
    return row


def _check_name(tx: Session, name: str, own_id: str) -> None:
    taken = select(TypeRow.id).where(TypeRow.name == name, TypeRow.id != own_id)
    if tx.execute(taken).first() is not None:
        raise Conflict(f"Share Type {name} already exists. Choose another name.")


def _seen_by(who: Who) -> list[ColumnElement[bool]]:
    return [] if who.is_admin else [_used_by(who.project_id)]


def _used_by(project_id: str) -> ColumnElement[bool]:
    named = exists().where(
        TypeAccessRow.share_type_id == TypeRow.id, TypeAccessRow.project_id == project_id
    )
    return or_(TypeRow.is_public.is_(True), named)
