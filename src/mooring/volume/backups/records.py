"""Records of backups: all that another cloud needs to know of one, to restore it from its data.

A record is JSON in Base64. It says nothing of the store, in which nothing is copied: that other
cloud's store has to hold the same data, whatever kind of store it is.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Struct

from mooring import limits, typed
from mooring.errors import Invalid
from mooring.web import body

if TYPE_CHECKING:
    from mooring.volume.tables import BackupRow

SERVICE = "cinder.backup.drivers.mooring"
"""What a client is told that a record is of: clients know the names of Cinder's drivers."""

# It names a folder of the store: nothing but this may get there.
_Id = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")]
_Name = Annotated[str, Meta(max_length=limits.VOLUME_NAME_LENGTH)]
_Moment = Annotated[datetime, Meta(tz=True)]


class Record(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a record says of a backup; all of it has to be there.

    `stored_as` is the id under which its data lie, which may be another backup's. Whose it was says
    `project_id`: it becomes the project's that imports it.
    """

    id: _Id
    stored_as: _Id
    parent_id: _Id | None
    project_id: _Name
    name: _Name | None
    description: _Name | None
    volume_id: _Id
    snapshot_id: _Id | None
    size: Annotated[int, Meta(ge=1, le=limits.VOLUME_SIZE_GIB)]
    availability_zone: _Name
    container: _Name | None
    object_count: Annotated[int, Meta(ge=0)]
    metadata: dict[str, _Name]
    bootable: bool
    image_metadata: dict[str, str]
    volume_metadata: dict[str, _Name] | None
    data_timestamp: _Moment
    created_at: _Moment


def of_backup(row: BackupRow, place: str) -> Record:
    """Return what there is to say of a backup whose data lie under the id `place`."""
    return Record(
        id=row.id,
        stored_as=place,
        parent_id=row.parent_id,
        project_id=row.project_id,
        name=row.name,
        description=row.description,
        volume_id=row.volume_id,
        snapshot_id=row.snapshot_id,
        size=row.size_gib,
        availability_zone=row.zone,
        container=row.container,
        object_count=row.object_count,
        metadata=row.labels,
        bootable=row.bootable,
        image_metadata=row.image_metadata,
        volume_metadata=row.volume_labels,
        data_timestamp=row.data_at,
        created_at=row.created_at,
    )


def write(record: Record) -> str:
    """Return a record as the text that an administrator keeps."""
    return base64.b64encode(msgspec.json.encode(record)).decode()


def read(service: str, text: str) -> Record:
    """Return what a record says. Raises Invalid for what is none, or not one of ours."""
    if service != SERVICE:
        raise Invalid(
            f"Invalid input received: A record of backup service '{service[:255]}' cannot be read "
            f"here, where they are of {SERVICE}. Nothing was imported."
        )
    try:
        content = base64.b64decode(text, validate=True)
        body.check_texts(content, "The record of a backup")
        record = typed.decode(content, Record)
        for moment in (record.data_timestamp, record.created_at):
            moment.astimezone(UTC)
    except msgspec.ValidationError as error:
        raise _unreadable(str(error)) from error
    except (ValueError, OverflowError, RecursionError, msgspec.DecodeError) as error:
        raise _unreadable("it is not Base64 of JSON", private=str(error)) from error
    return record


def _unreadable(why: str, private: str = "") -> Invalid:
    return Invalid(
        f"Invalid input received: The record of a backup cannot be read: {why}. Nothing was "
        "imported; give service and URL as the export told them.",
        private=private,
    )
