"""The actions `rescue` and `unrescue` of a server (facts/compute.md 1.4)."""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType, field

from mooring.compute.create.api import server_create
from mooring.compute.rescue import rescuing
from mooring.compute.service import Compute
from mooring.compute.wire.api.values import with_dashes
from mooring.compute.wire.fields import Uuid
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()

_PATH = "/servers/{server_id}/action"
_RULE = "os_compute_api:"
_FROM_VOLUME_SINCE = (2, 87)
"""From here on servers that boot from a volume are rescued, too."""


class Rescue(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a server is to boot from. The password is told back, and given to nobody."""

    admin_pass: str = field(name="adminPass", default="")
    rescue_image_ref: Uuid | UnsetType = UNSET


@api.action(_PATH, "rescue", Rescue | None, policy=f"{_RULE}os-rescue")
async def rescue(call: Call[Compute], body: Rescue | None) -> Reply:
    """Boot a server from an image, its own if none is named, with its own disks beside that."""
    asked = body or Rescue()
    named = None if asked.rescue_image_ref is UNSET else asked.rescue_image_ref
    await rescuing.rescue(
        call.service,
        call.who,
        call.path["server_id"],
        image_id=None if named is None else with_dashes(named),
        may_boot_from_volume=call.version >= _FROM_VOLUME_SINCE,
    )
    return Reply(200, {"adminPass": server_create.password(asked.admin_pass)})


@api.action(_PATH, "unrescue", policy=f"{_RULE}os-unrescue")
async def unrescue(call: Call[Compute]) -> Reply:
    """Boot a rescued server from its own disks again."""
    await rescuing.unrescue(call.service, call.who, call.path["server_id"])
    return Reply(202)
