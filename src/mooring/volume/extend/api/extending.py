"""Extending volumes: two actions of POST /volumes/{volume_id}/action.

Source: facts/block_storage.md 3.1 and 3.2.
"""

from __future__ import annotations

from msgspec import Struct

from mooring import limits
from mooring.volume.extend import extending
from mooring.volume.service import Volume
from mooring.volume.volumes import volumes
from mooring.volume.wire.api import values
from mooring.volume.wire.api.values import asked
from mooring.web.api import Api, Call, Reply

api = Api[Volume]()

_PATH = "/volumes/{volume_id}/action"
_COMPLETION = "volume_extension:volume_admin_actions:extend_volume_completion"
_ATTACHED_SINCE = (3, 42)


class ExtendBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `os-extend`: the new size in GiB."""

    new_size: int | str


class CompletionBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `os-extend_volume_completion`. Upstream takes words for booleans; we do not."""

    error: bool = False


@api.action(_PATH, "os-extend", ExtendBody, policy=None)
async def extend(call: Call[Volume], body: ExtendBody) -> Reply:
    """Make it bigger, from 3.42 on also while it is attached."""
    most, volume_id = limits.VOLUME_SIZE_GIB, call.path["volume_id"]
    new_gib = values.whole_number(body.new_size, "new_size", least=1, most=most)
    row = await call.service.store.read(lambda tx: volumes.visible(tx, call.who, volume_id))
    again = row.status in extending.FAILED_BEFORE and row.attach_status == "attached"
    attached = (row.status == "in-use" or again) and call.version >= _ATTACHED_SINCE
    rule = "volume:extend_attached_volume" if attached else "volume:extend"
    call.require(rule, {"project_id": row.project_id, "user_id": row.user_id})
    await extending.extend(asked(call), volume_id, new_gib, attached=attached)
    return Reply(202)


@api.action(_PATH, "os-extend_volume_completion", CompletionBody, policy=_COMPLETION, since=(3, 71))
async def complete_extend(call: Call[Volume], body: CompletionBody) -> Reply:
    """Tell that compute has let it grow, or could not."""
    await extending.complete(asked(call), call.path["volume_id"], failed=body.error)
    return Reply(202)
