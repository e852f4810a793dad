"""`os-volume_upload_image`: a volume becomes an image (facts/block_storage.md 1.6 and 9)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from mooring import limits
from mooring.agent_api.captures import DiskFormat
from mooring.volume.service import Volume
from mooring.volume.upload import uploading
from mooring.volume.upload.uploading import Begun, Upload
from mooring.volume.wire import views
from mooring.volume.wire.api import values
from mooring.volume.wire.api.values import Flag, asked
from mooring.web.api import Api, Call, Reply
from mooring.web.bodies import Since

api = Api[Volume]()

_SHARED_SINCE = (3, 1)
_ImageName = Annotated[str, Meta(min_length=1, max_length=limits.VOLUME_NAME_LENGTH)]


class UploadBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `os-volume_upload_image`. Volumes are filled from raw and qcow2 alone, too."""

    image_name: _ImageName
    force: Flag = False
    disk_format: DiskFormat = "raw"
    container_format: Literal["bare"] = "bare"
    visibility: Annotated[Literal["community", "public", "private", "shared"], Since(3, 1)] = (
        "private"
    )
    protected: Annotated[Flag, Since(3, 1)] = False


@api.action(
    "/volumes/{volume_id}/action",
    "os-volume_upload_image",
    UploadBody,
    policy="volume_extension:volume_actions:upload_image",
)
async def upload_image(call: Call[Volume], body: UploadBody) -> Reply:
    """Make an image of it."""
    if body.visibility == "public":
        call.require("volume_extension:volume_actions:upload_public")
    values.flag(body.force, "force")
    wanted = Upload(
        name=body.image_name,
        disk_format=body.disk_format,
        visibility=body.visibility,
        protected=values.flag(body.protected, "protected"),
    )
    begun = await uploading.upload(asked(call), call.path["volume_id"], wanted)
    return Reply(202, {"os-volume_upload_image": _shown(call, wanted, begun)})


def _shown(call: Call[Volume], wanted: Upload, begun: Begun) -> dict[str, Any]:
    row = begun.volume
    shown = {
        "id": row.id,
        "updated_at": views.time(row.updated_at),
        # By now it may be over.
        "status": "uploading",
        "display_description": row.description,
        "size": row.size_gib,
        "volume_type": views.volume_type(call, begun.volume_type),
        "image_id": begun.image_id,
        "container_format": "bare",
        "disk_format": wanted.disk_format,
        "image_name": wanted.name,
    }
    if call.version >= _SHARED_SINCE:
        shown |= {"protected": wanted.protected, "visibility": wanted.visibility}
    return shown
