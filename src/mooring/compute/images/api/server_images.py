"""The action `createImage` of a server (facts/compute.md 1.4)."""

from __future__ import annotations

from msgspec import Struct

from mooring.compute.images import imaging
from mooring.compute.service import Compute
from mooring.compute.wire.api.values import Metadata, Name
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()

_IN_BODY = (2, 45)


class NewServerImage(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `createImage`."""

    name: Name
    metadata: Metadata = {}


@api.action(
    "/servers/{server_id}/action",
    "createImage",
    NewServerImage,
    policy="os_compute_api:servers:create_image",
)
async def create_image(call: Call[Compute], body: NewServerImage) -> Reply:
    """Make an image of the server's root disk."""
    compute, server_id = call.service, call.path["server_id"]
    image_id = await imaging.create_image(compute, call.who, server_id, body.name, body.metadata)
    if call.version >= _IN_BODY:
        return Reply(202, {"image_id": image_id})
    return Reply(202, headers={"location": await compute.images.url(image_id)})
