"""Volume types: what kind of volumes there are, and who may use them."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import TYPE_CHECKING

from sqlalchemy import ColumnElement, Select, String, bindparam, exists, or_, select
from sqlalchemy.orm import Session

from mooring.errors import Conflict, Invalid, NotFound
from mooring.volume.quotas import quota
from mooring.volume.tables import TypeAccessRow, TypeRow, VolumeRow

if TYPE_CHECKING:
    from mooring.who import Who

_NAMESPACE = uuid.UUID("0a3a9c1e-4f7b-5b0e-8a55-5d1c9e0f7b21")
MULTIATTACH = "multiattach"


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
            description="Default Volume Type",
            is_public=True,
            extra_specs={},
            created_at=now,
        )
    )


def visible(tx: Session, who: Who, type_id: str) -> TypeRow:
    """Return the type of this id that the caller may see. Raises NotFound."""
    row = tx.execute(_seen_by(who).where(TypeRow.id == type_id)).scalar()
    if row is None:
        raise NotFound(f"Volume type {type_id} could not be found.")
    return row


def named(tx: Session, who: Who, name_or_id: str) -> TypeRow:
    """Return the type of this name or id that the caller may use. Raises NotFound."""
    named = _named_for_admins if who.is_admin else _named
    given = {"of_name": name_or_id, "of_project": who.project_id}
    row = tx.execute(named, given).scalars().first()
    if row is None:
        raise NotFound(f"Volume type {name_or_id} could not be found.")
    return row


def is_multiattach(row: TypeRow) -> bool:
    """Whether volumes of this type may be attached to several servers at once."""
    return row.extra_specs.get(MULTIATTACH, "").strip().lower() == "<is> true"


def check_size(row: TypeRow, size_gib: int) -> None:
    """Raise Invalid unless volumes of a type may be so large."""
    for word, key in (("less than the minimum", "min"), ("greater than the maximum", "max")):
        text = row.extra_specs.get(f"provisioning:{key}_vol_size", "").strip()
        bound = int(text) if text.isascii() and text.isdecimal() else None
        if bound is not None and (size_gib < bound if key == "min" else size_gib > bound):
            raise Invalid(
                f"Invalid input received: Specified volume size of '{size_gib}' is {word} required "
                f"size of '{bound}' for volume type '{row.name}'. Nothing was changed.",
            )


def projects(tx: Session, row: TypeRow) -> list[str]:
    """Return the projects that may use a private type."""
    query = select(TypeAccessRow.project_id).where(TypeAccessRow.volume_type_id == row.id)
    return list(tx.execute(query.order_by(TypeAccessRow.project_id)).scalars())


def create(tx: Session, row: TypeRow) -> TypeRow:
    """Add a type. Raises Conflict when there is one of its name."""
    _check_name(tx, row.name, "")
    # Mooring once left the limits of a type that was deleted or renamed.
    quota.forget_type(tx, row.name)
    tx.add(row)
    tx.flush()
    return row


def rename(tx: Session, row: TypeRow, name: str) -> None:
    """Give a type another name, and its quotas with it. Raises Conflict when it is taken."""
    _check_name(tx, name, row.id)
    former = _hold(tx, row)
    if name != former:
        quota.rename_type(tx, former, name)
        row.name = name


def delete(tx: Session, row: TypeRow) -> None:
    """Delete a type and its quotas. Raises Invalid while volumes are of it."""
    if tx.execute(select(VolumeRow.id).where(VolumeRow.volume_type_id == row.id).limit(1)).first():
        raise Invalid(
            f"Volume type {row.id} is in use by volumes and cannot be deleted. Delete them first.",
        )
    quota.forget_type(tx, _hold(tx, row))
    tx.delete(row)


def _hold(tx: Session, row: TypeRow) -> str:
    """Return a type's name, which it keeps until the transaction ends. Raises NotFound."""
    quota.hold_types(tx)
    name = tx.execute(select(TypeRow.name).where(TypeRow.id == row.id)).scalar()
    if name is None:
        raise NotFound(f"Volume type {row.id} could not be found.")
    return name


def _check_name(tx: Session, name: str, own_id: str) -> None:
    taken = select(TypeRow.id).where(TypeRow.name == name, TypeRow.id != own_id)
    if tx.execute(taken).first() is not None:
        raise Conflict(f"Volume Type {name} already exists. Choose another name.")


def _seen_by(who: Who) -> Select[TypeRow]:
    query = select(TypeRow)
    return query if who.is_admin else query.where(is_seen_in(who.project_id))


def is_seen_in(project_id: str | ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition on the types that a project may use."""
    mine = exists().where(
        TypeAccessRow.volume_type_id == TypeRow.id, TypeAccessRow.project_id == project_id
    )
    return or_(TypeRow.is_public.is_(True), mine)


_named_for_admins = select(TypeRow).where(
    or_(TypeRow.name == bindparam("of_name"), TypeRow.id == bindparam("of_name"))
)
_named = _named_for_admins.where(is_seen_in(bindparam("of_project", type_=String)))
