"""The actions `createImage` and `createBackup` of a server (facts/compute.md 1.4)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from mooring.compute.images import imaging
from mooring.compute.images.imaging import Rotation, Wish
from mooring.compute.service import Compute
from mooring.compute.wire.api.values import Metadata, Name, Whole, whole
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()

_PATH = "/servers/{server_id}/action"
_IMAGE = "os_compute_api:servers:create_image"
_IN_BODY = (2, 45)

BackupType = Annotated[str, Meta(max_length=255)]
"""Any word; the stock client's is empty unless told."""


class NewServerImage(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `createImage`."""

    name: Name
    metadata: Metadata = {}


class NewServerBackup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The value of `createBackup`: how many images of the type are kept, the new one included."""

    name: Name
    backup_type: BackupType
    rotation: Whole
    metadata: Metadata = {}


@api.action(_PATH, "createImage", NewServerImage, policy=_IMAGE)
async def create_image(call: Call[Compute], body: NewServerImage) -> Reply:
    """Make an image of the server's root disk, or of its volumes where it boots from one."""
    wish = Wish(
        name=body.name,
        metadata=body.metadata,
        volumes_allowed=call.allowed(f"{_IMAGE}:allow_volume_backed"),
    )
    image_id = await imaging.create_image(call.service, call.who, call.path["server_id"], wish)
    return await _answer(call, image_id)


@api.action(_PATH, "createBackup", NewServerBackup, policy="os_compute_api:os-create-backup")
async def create_backup(call: Call[Compute], body: NewServerBackup) -> Reply:
    """Make an image of the server's root disk, and delete the oldest of its type.

    Who keeps none is told of none.
    """
    rotation = Rotation(body.backup_type, whole(body.rotation, "rotation"))
    wish = Wish(name=body.name, metadata=body.metadata)
    server_id = call.path["server_id"]
    image_id = await imaging.create_backup(call.service, call.who, server_id, wish, rotation)
    return await _answer(call, image_id) if rotation.keep else Reply(202)


async def _answer(call: Call[Compute], image_id: str) -> Reply:
    """Name the image: from 2.45 on by its id, before that by where it is."""
    if call.version >= _IN_BODY:
        return Reply(202, {"image_id": image_id})
    return Reply(202, headers={"location": await call.service.images.url(image_id)})
