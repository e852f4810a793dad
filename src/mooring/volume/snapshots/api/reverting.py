"""`revert`: a volume goes back to its newest snapshot (facts/block_storage.md 8.2)."""

from __future__ import annotations

from msgspec import Struct

from mooring.volume.service import Volume
from mooring.volume.snapshots import reverting
from mooring.volume.wire.api import values
from mooring.volume.wire.api.values import asked
from mooring.web.api import Api, Call, Reply

api = Api[Volume]()


class RevertBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of `revert`: what was written since that snapshot is lost."""

    snapshot_id: values.Uuid


@api.action(
    "/volumes/{volume_id}/action",
    "revert",
    RevertBody,
    policy="volume:revert_to_snapshot",
    since=(3, 40),
)
async def revert_volume(call: Call[Volume], body: RevertBody) -> Reply:
    """Give it the content that the snapshot has."""
    await reverting.revert(asked(call), call.path["volume_id"], body.snapshot_id)
    return Reply(202)
