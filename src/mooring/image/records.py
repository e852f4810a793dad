"""Images as the rules see them: a row with its tags and properties, and how they are loaded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from msgspec.structs import replace
from sqlalchemy import Table, bindparam, select

from mooring.image.tables import ImageRow, MemberRow, PropertyRow, TagRow
from mooring.store.prepared import Among

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

images = cast("Table", ImageRow.__table__)


class Record(Struct, frozen=True, kw_only=True):
    """One image, whole. Sizes in bytes, min_disk in GiB, min_ram in MiB."""

    id: str
    name: str | None
    status: str
    visibility: str
    owner: str | None
    disk_format: str | None
    container_format: str | None
    size_bytes: int | None
    virtual_size_bytes: int | None
    checksum: str | None
    os_hash_algo: str | None
    os_hash_value: str | None
    min_disk_gib: int
    min_ram_mib: int
    protected: bool
    os_hidden: bool
    data_name: str | None
    created_at: datetime
    updated_at: datetime
    tags: tuple[str, ...] = ()
    properties: dict[str, str] = {}
    member_id: str | None = None
    """The caller's project, where the image is shared with it."""

    def target(self) -> dict[str, Any]:
        """Return what policy rules may know of the image."""
        return {
            "project_id": self.owner,
            "owner": self.owner,
            "visibility": self.visibility,
            "member_id": self.member_id,
        }


def load(tx: Session, ids: Sequence[str], project_id: str) -> list[Record]:
    """Return some images in the order of their ids, as a caller of one project sees them."""
    tx.flush()
    found = {record.id: record for record in _images.all(tx, ids)}
    tags = _tags(tx, ids)
    properties = _properties(tx, ids)
    shared = _shared(tx, ids, project_id)
    return [
        replace(
            found[image_id],
            tags=tuple(tags.get(image_id, ())),
            properties=properties.get(image_id, {}),
            member_id=project_id if image_id in shared else None,
        )
        for image_id in ids
        if image_id in found
    ]


def _tags(tx: Session, ids: Collection[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for image_id, tag in _tags_of.all(tx, ids):
        found.setdefault(image_id, []).append(tag)
    return found


def _properties(tx: Session, ids: Collection[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for image_id, name, value in _properties_of.all(tx, ids):
        found.setdefault(image_id, {})[name] = value
    return found


def _shared(tx: Session, ids: Collection[str], project_id: str) -> set[str]:
    return set(_shared_with.all(tx, ids, of_project=project_id))


def _read(*values: Any) -> Record:
    return Record(**dict(zip(images.c.keys(), values, strict=True)))


_images = Among(lambda ids: select(images).where(images.c.id.in_(ids)), _read)
_tags_of = Among[tuple[str, str]](
    lambda ids: (
        select(TagRow.image_id, TagRow.tag).where(TagRow.image_id.in_(ids)).order_by(TagRow.tag)
    )
)
_properties_of = Among[tuple[str, str, str]](
    lambda ids: (
        select(PropertyRow.image_id, PropertyRow.name, PropertyRow.value)
        .where(PropertyRow.image_id.in_(ids))
        .order_by(PropertyRow.name)
    )
)
_shared_with = Among(
    lambda ids: select(MemberRow.image_id).where(
        MemberRow.image_id.in_(ids), MemberRow.member_id == bindparam("of_project")
    ),
    str,
)
