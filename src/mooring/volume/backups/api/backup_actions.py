"""What administrators do to backups: /backups/{id}/action (facts/block_storage.md 8.6)."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from mooring.volume.backups import backups
from mooring.volume.service import Volume
from mooring.volume.wire.api.values import asked
from mooring.web.api import Api, Call, Reply

api = Api[Volume]()

_ACTION = "/backups/{backup_id}/action"
_ADMIN = "volume_extension:backup_admin_actions"


class ResetBody(Struct, frozen=True):
    """The value of `os-reset_status`."""

    status: Literal["available", "creating", "deleting", "restoring", "error", "error_deleting"]


@api.action(_ACTION, "os-reset_status", ResetBody, policy=f"{_ADMIN}:reset_status")
async def reset_status(call: Call[Volume], body: ResetBody) -> Reply:
    """Set the status by hand."""
    await backups.reset_status(asked(call), call.path["backup_id"], body.status)
    return Reply(202)


@api.action(_ACTION, "os-force_delete", policy=f"{_ADMIN}:force_delete")
async def force_delete(call: Call[Volume]) -> Reply:
    """Delete it whatever its status."""
    await backups.delete(asked(call), call.path["backup_id"], force=True)
    return Reply(202)
