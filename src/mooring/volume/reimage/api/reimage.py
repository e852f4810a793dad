"""`os-reimage`: give a volume the content of another image (facts/block_storage.md 4)."""

from __future__ import annotations

from msgspec import Struct

from mooring.volume.reimage import reimage
from mooring.volume.service import Volume
from mooring.volume.tables import VolumeRow
from mooring.volume.wire.api import values
from mooring.volume.wire.api.values import asked
from mooring.web.api import Api, Call, Reply

api = Api[Volume]()


class ReimageBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `os-reimage`. Everything on the volume is destroyed."""

    image_id: values.Uuid
    reimage_reserved: bool = False


@api.action("/volumes/{volume_id}/action", "os-reimage", ReimageBody, policy=None, since=(3, 68))
async def reimage_volume(call: Call[Volume], body: ReimageBody) -> Reply:
    """Replace what it holds. Which rule of the policy holds depends on its status."""

    def require(rule: str, row: VolumeRow) -> None:
        call.require(rule, {"project_id": row.project_id, "user_id": row.user_id})

    await reimage.reimage(
        asked(call),
        call.path["volume_id"],
        body.image_id,
        reserved=body.reimage_reserved,
        require=require,
    )
    return Reply(202)
