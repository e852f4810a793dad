"""What stock clients ask for at the versions we advertise, and this service does not have.

Making a snapshot is refused with 501, so that nobody believes it was made.
"""

from __future__ import annotations

from typing import Any

from mooring.errors import Invalid, NotFound
from mooring.volume.service import Volume
from mooring.web.api import Api, Call, Reply

api = Api[Volume]()
_ACTION = "/volumes/{volume_id}/action"


@api.get("/snapshots", policy="volume:get_all_snapshots")
async def list_snapshots(call: Call[Volume]) -> Reply:
    """No snapshot."""
    return Reply(200, {"snapshots": []})


@api.get("/snapshots/detail", policy="volume:get_all_snapshots")
async def list_snapshots_in_detail(call: Call[Volume]) -> Reply:
    """No snapshot."""
    return Reply(200, {"snapshots": []})


@api.post("/snapshots", Any, policy="volume:create_snapshot")
async def refuse_snapshot(call: Call[Volume], body: Any) -> Reply:
    """Say that snapshots are not built."""
    raise Invalid("Snapshots are not built in this cloud. Nothing was changed.", status=501)


@api.get("/snapshots/{snapshot_id}", policy="volume:get_snapshot")
async def show_snapshot(call: Call[Volume]) -> Reply:
    """Say that there is no such snapshot."""
    raise NotFound(f"Snapshot {call.path['snapshot_id']} could not be found.")


@api.delete("/snapshots/{snapshot_id}", policy="volume:delete_snapshot")
async def delete_snapshot(call: Call[Volume]) -> Reply:
    """Say that there is no such snapshot."""
    raise NotFound(f"Snapshot {call.path['snapshot_id']} could not be found.")
