"""`/mooring/fences`: ending hosts for certain. Ours alone, beside the OpenStack API."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from mooring.compute.hosts import fencing
from mooring.compute.hosts.fence_views import GOES_ON, Fence
from mooring.compute.service import Compute
from mooring.errors import Forbidden
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()
_ALL = "/mooring/fences"
_PATH = f"{_ALL}/{{host}}"


class FenceRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of PUT. `force` says that a host is meant though it answers."""

    force: bool = False


@api.put(_PATH, FenceRequest, policy=None)
async def fence_host(call: Call[Compute], body: FenceRequest) -> Reply:
    """Fence a host and force it down: 200 once it is, 202 while the fence is at work."""
    _require_admin(call)
    found = await fencing.fence(call.service, call.who, call.path["host"], force=body.force)
    return _show(found)


@api.get(_PATH, policy=None)
async def show_fence(call: Call[Compute]) -> Reply:
    """Show how the last fencing of a host went, and why it is forced down."""
    _require_admin(call)
    found = await fencing.show(call.service, call.path["host"])
    return Reply(200, msgspec.to_builtins(found))


@api.get(_ALL, policy=None)
async def list_fences(call: Call[Compute]) -> Reply:
    """List the hosts that are forced down, are being fenced, or could not be fenced."""
    _require_admin(call)
    return Reply(200, msgspec.to_builtins(await fencing.show_all(call.service)))


def _show(found: Fence) -> Reply:
    return Reply(202 if found.status == GOES_ON else 200, msgspec.to_builtins(found))


def _require_admin(call: Call[Compute]) -> None:
    if not call.who.is_admin:
        raise Forbidden("Hosts are an administrator's business.")
