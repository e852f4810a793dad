"""Images: who sees them, their making, their changes, their end.

Source: facts/identity_image_placement.md 8.1 to 8.6.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from msgspec import Struct
from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from mooring.errors import Conflict, Forbidden, NotFound
from mooring.image import attributes, records
from mooring.image.records import Record
from mooring.image.tables import FormerImageRow, ImageRow, PropertyRow, TagRow, UploadRow

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from mooring.who import Who

Require = Callable[[str, Mapping[str, Any]], None]
"""Raises Forbidden unless the caller may do a rule to a target: `call.require`."""

_OPEN = ("public", "community")


class NewImage(Struct, frozen=True):
    """An image that is to be made: checked attributes by their wire names, and properties."""

    id: str
    attributes: dict[str, Any]
    properties: dict[str, str]


class Change(Struct, frozen=True):
    """One change of an image: `op` is add, replace or remove; `name` a wire name."""

    op: str
    name: str
    value: Any = None


def visible(tx: Session, who: Who, image_id: str) -> Record:
    """Return one image. Raises NotFound, also for one that the caller may not see."""
    found = records.load(tx, [image_id], who.project_id)
    if found and can_see(who, found[0]):
        return found[0]
    raise NotFound(f"No image found with ID {image_id[:64]}.")


def changeable(tx: Session, who: Who, image_id: str) -> Record:
    """Return one image that nobody else changes until the transaction ends. Raises NotFound."""
    tx.execute(select(ImageRow.id).where(ImageRow.id == image_id).with_for_update())
    return visible(tx, who, image_id)


def can_see(who: Who, image: Record) -> bool:
    """Tell whether the caller may see an image: open, own, or shared with its project."""
    if who.is_admin or image.visibility in _OPEN:
        return True
    if image.owner is not None and image.owner == who.project_id:
        return True
    return image.visibility == "shared" and image.member_id is not None


def read_new(body: Mapping[str, Any], who: Who) -> NewImage:
    """Read the body of a POST. Raises Invalid, Forbidden for what only the service writes."""
    given = dict(body)
    image_id = attributes.check_id(given.pop("id")) if "id" in given else str(uuid4())
    values: dict[str, Any] = {"visibility": "shared", "owner": who.project_id or None}
    properties: dict[str, str] = {}
    for name, value in given.items():
        attributes.check_name(name)
        checked = attributes.check_value(name, value)
        (values if name in attributes.BASE else properties)[name] = checked
    attributes.check_properties(properties)
    return NewImage(image_id, values, properties)


def create(tx: Session, who: Who, new: NewImage, now: datetime) -> Record:
    """Make an image without data. Raises Conflict when its id is taken, or was before."""
    values = dict(new.attributes)
    tags = values.pop("tags", [])
    columns = {attributes.COLUMNS.get(name, name): value for name, value in values.items()}
    row = ImageRow(id=new.id, **columns, created_at=now, updated_at=now)
    try:
        with tx.begin_nested():
            tx.add(row)
            tx.flush()
    except IntegrityError as error:
        raise Conflict(f"Image ID {new.id} already exists. Choose another.") from error
    _refuse_alike(tx, new.id)
    _put_tags(tx, new.id, tags)
    _put_properties(tx, new.id, new.properties)
    return visible(tx, who, new.id)


def _refuse_alike(tx: Session, image_id: str) -> None:
    """Raise Conflict where an id is, or was, that of another image but for the case of letters.

    Earlier releases kept ids as they were sent. The former ones come last, behind the insert: an
    image that was deleted a moment ago is seen among either on PostgreSQL, too.
    """
    small = func.lower(ImageRow.id) == image_id
    if tx.scalar(select(ImageRow.id).where(small, ImageRow.id != image_id)) is not None:
        raise Conflict(f"Image ID {image_id} already exists in capital letters. Choose another.")
    former = select(FormerImageRow.id).where(func.lower(FormerImageRow.id) == image_id)
    if tx.scalars(former).first() is not None:
        raise Conflict(f"Image ID {image_id} was that of an image before. Choose another.")


def change(
    tx: Session,
    who: Who,
    image_id: str,
    changes: Sequence[Change],
    *,
    now: datetime,
    require: Require,
) -> Record:
    """Make all changes or none. Raises NotFound, Forbidden, Invalid, Conflict."""
    image = changeable(tx, who, image_id)
    require("modify_image", image.target())
    values: dict[str, Any] = {}
    properties = dict(image.properties)
    for each in changes:
        attributes.check_name(each.name)
        if each.name == "id":
            raise Forbidden("Attribute 'id' is read-only.")
        if each.name in attributes.BASE:
            values[each.name] = _attribute(image, each, require)
        else:
            _property(properties, each)
    attributes.check_properties(properties)
    if "tags" in values:
        _put_tags(tx, image_id, values.pop("tags"))
    if properties != image.properties:
        _put_properties(tx, image_id, properties)
    columns = {attributes.COLUMNS.get(name, name): value for name, value in values.items()}
    query = update(ImageRow).where(ImageRow.id == image_id)
    if attributes.ONCE_ONLY & values.keys():
        query = query.where(ImageRow.status == "queued")
    changed = tx.scalar(query.values(**columns, updated_at=now).returning(ImageRow.id))
    if changed is None:
        raise _frozen(image)
    return visible(tx, who, image_id)


def remove(tx: Session, who: Who, image_id: str, *, now: datetime, require: Require) -> list[str]:
    """Delete an image; return the files that its data lie in. Raises NotFound, Forbidden."""
    image = visible(tx, who, image_id)
    require("delete_image", image.target())
    gone = delete(ImageRow).where(ImageRow.id == image_id, ImageRow.protected.is_(False))
    row = tx.execute(gone.returning(ImageRow.data_name)).first()
    if row is None:
        visible(tx, who, image_id)  # On PostgreSQL another one may have deleted it since.
        raise Forbidden(
            f"Image {image_id} is protected and cannot be deleted. Set protected to false first."
        )
    former = {"id": image_id, "owner": image.owner or "", "deleted_at": now}
    tx.execute(insert(FormerImageRow).values(former))
    return [name for name in row if name is not None]


def set_active(
    tx: Session, who: Who, image_id: str, *, active: bool, now: datetime, require: Require
) -> None:
    """Let an image's data be read, or not. Raises NotFound; Forbidden, also in another status."""
    image = visible(tx, who, image_id)
    require("reactivate" if active else "deactivate", image.target())
    query = update(ImageRow).where(
        ImageRow.id == image_id, ImageRow.status.in_(("active", "deactivated"))
    )
    status = "active" if active else "deactivated"
    changed = query.values(status=status, updated_at=now).returning(ImageRow.id)
    if tx.scalar(changed) is None:
        raise Forbidden(
            f"Image {image_id} is {image.status}: only one that is active or deactivated can be "
            f"{'re' if active else 'de'}activated. Upload its data first."
        )


def add_tag(
    tx: Session, who: Who, image_id: str, tag: str, *, now: datetime, require: Require
) -> None:
    """Add one tag; one that is there is fine. Raises NotFound, Forbidden, Invalid, OverQuota."""
    image = changeable(tx, who, image_id)
    require("modify_image", image.target())
    wanted = attributes.check_value("tags", [*image.tags, tag])
    if tag not in image.tags:
        _put_tags(tx, image_id, wanted)
        _touch(tx, image_id, now)


def remove_tag(
    tx: Session, who: Who, image_id: str, tag: str, *, now: datetime, require: Require
) -> None:
    """Take one tag away. Raises NotFound, Forbidden."""
    image = changeable(tx, who, image_id)
    require("modify_image", image.target())
    if tag not in image.tags:
        raise NotFound(f"Image {image_id} has no such tag.")
    tx.execute(delete(TagRow).where(TagRow.image_id == image_id, TagRow.tag == tag))
    _touch(tx, image_id, now)


def data_names(tx: Session) -> set[str]:
    """Return the names of all files that hold an image's data, or are being filled with them."""
    names = set(tx.scalars(select(ImageRow.data_name).where(ImageRow.data_name.is_not(None))))
    uploads = tx.execute(select(UploadRow.image_id, UploadRow.id))
    return {name for name in names if name} | {data_name(*row) for row in uploads}


def data_name(image_id: str, upload_id: str) -> str:
    """Return the name of the file that one upload fills."""
    return f"{image_id}.{upload_id}"


def _attribute(image: Record, each: Change, require: Require) -> Any:
    """Return the new value of one of Glance's own attributes. Raises Forbidden, Invalid."""
    if each.op == "remove":
        raise Forbidden(f"Attribute '{each.name}' may not be removed.")
    if each.name in attributes.ONCE_ONLY and image.status != "queued":
        raise _frozen(image)
    value = attributes.check_value(each.name, each.value)
    if each.name == "visibility" and value != image.visibility:
        _require_visibility(value, image, require)
    if each.name == "owner" and value != image.owner:
        require("context_is_admin", {})
    return value


def _require_visibility(value: str, image: Record, require: Require) -> None:
    if value == "public":
        require("publicize_image", image.target())
    elif value == "community":
        require("communitize_image", image.target())


def _property(properties: dict[str, str], each: Change) -> None:
    """Make one change to a client's own property. Raises Conflict when it is not there."""
    if each.op != "add" and each.name not in properties:
        raise Conflict(f"Property {each.name} does not exist.")
    if each.op == "remove":
        del properties[each.name]
    else:
        properties[each.name] = attributes.check_value(each.name, each.value)


def _frozen(image: Record) -> Forbidden:
    return Forbidden(
        f"The formats of image {image.id} cannot be changed: it is {image.status}, and only an "
        "image that is queued has no data yet."
    )


def _touch(tx: Session, image_id: str, now: datetime) -> None:
    tx.execute(update(ImageRow).where(ImageRow.id == image_id).values(updated_at=now))


def _put_tags(tx: Session, image_id: str, tags: Collection[str]) -> None:
    tx.execute(delete(TagRow).where(TagRow.image_id == image_id))
    rows = [{"image_id": image_id, "tag": tag} for tag in tags]
    if rows:
        tx.execute(insert(TagRow), rows)


def _put_properties(tx: Session, image_id: str, properties: Mapping[str, str]) -> None:
    tx.execute(delete(PropertyRow).where(PropertyRow.image_id == image_id))
    rows = [
        {"image_id": image_id, "name": name, "value": value} for name, value in properties.items()
    ]
    if rows:
        tx.execute(insert(PropertyRow), rows)
