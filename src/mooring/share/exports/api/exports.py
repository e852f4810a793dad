"""Export locations: /shares/{share_id}/export_locations, and those of share instances."""

from __future__ import annotations

from sqlalchemy.orm import Session

from mooring.errors import NotFound
from mooring.share.exports import exports
from mooring.share.service import Share
from mooring.share.shares import share_rows
from mooring.share.tables import ExportRow
from mooring.share.wire import views
from mooring.web.api import Api, Call, Reply

api = Api[Share]()

_PATH = "/shares/{share_id}/export_locations"
_OF_INSTANCE = "/share_instances/{instance_id}/export_locations"
_SINCE = (2, 9)


@api.get(_PATH, policy="share_export_location:index", since=_SINCE)
async def list_exports(call: Call[Share]) -> Reply:
    """List where clients mount it from; nowhere before it is available."""
    return await _list(call, call.path["share_id"])


@api.get(f"{_PATH}/{{location_id}}", policy="share_export_location:show", since=_SINCE)
async def show_export(call: Call[Share]) -> Reply:
    """Show one location."""
    return await _show(call, call.path["share_id"])


@api.get(_OF_INSTANCE, policy="share_instance_export_location:index", since=_SINCE)
async def list_exports_of_instance(call: Call[Share]) -> Reply:
    """List those of a share's one instance, which are the share's."""
    return await _list(call, call.path["instance_id"])


@api.get(
    f"{_OF_INSTANCE}/{{location_id}}", policy="share_instance_export_location:show", since=_SINCE
)
async def show_export_of_instance(call: Call[Share]) -> Reply:
    """Show one of them."""
    return await _show(call, call.path["instance_id"])


async def _list(call: Call[Share], share_id: str) -> Reply:
    rows = await call.service.store.read(lambda tx: _find(tx, call, share_id))
    return Reply(200, {"export_locations": [views.export(call, row) for row in rows]})


async def _show(call: Call[Share], share_id: str) -> Reply:
    rows = await call.service.store.read(lambda tx: _find(tx, call, share_id))
    wanted = call.path["location_id"]
    found = next((row for row in rows if row.id == wanted), None)
    if found is None:
        raise NotFound(f"Export location {wanted} could not be found.")
    return Reply(200, {"export_location": views.export(call, found, whole=True)})


def _find(tx: Session, call: Call[Share], share_id: str) -> list[ExportRow]:
    row = share_rows.visible(tx, call.who, share_id)
    return exports.of_share(tx, row.id) if row.launched_at is not None else []
