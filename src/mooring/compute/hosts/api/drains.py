"""`/mooring/drains` and `/mooring/evacuations`: emptying a host that lives, or is dead.

Ours alone, beside the OpenStack API, for `mooring host`.
"""

from __future__ import annotations

import msgspec

from mooring.compute.hosts import draining
from mooring.compute.service import Compute
from mooring.errors import Forbidden
from mooring.web.api import Api, Call, Reply

api = Api[Compute]()
_PATH, _OF_DEAD = "/mooring/drains/{host}", "/mooring/evacuations/{host}"


@api.put(_PATH, policy=None)
async def begin_drain(call: Call[Compute]) -> Reply:
    """Disable a host and have its servers move away; 202 also when that goes on already."""
    _require_admin(call)
    found = await draining.begin(call.service, call.who, call.path["host"])
    return Reply(202, msgspec.to_builtins(found))


@api.put(_OF_DEAD, policy=None)
async def begin_evacuation(call: Call[Compute]) -> Reply:
    """Have the servers of a dead host evacuated; 202 also when that goes on already."""
    _require_admin(call)
    host = call.path["host"]
    found = await draining.begin(call.service, call.who, host, evacuates=True)
    return Reply(202, msgspec.to_builtins(found))


@api.get(_OF_DEAD, policy=None)
async def show_evacuation(call: Call[Compute]) -> Reply:
    """Show how far it is, or how it ended."""
    _require_admin(call)
    found = await draining.show(call.service, call.path["host"], evacuates=True)
    return Reply(200, msgspec.to_builtins(found))


@api.get(_PATH, policy=None)
async def show_drain(call: Call[Compute]) -> Reply:
    """Show how far it is, or how it ended."""
    _require_admin(call)
    found = await draining.show(call.service, call.path["host"])
    return Reply(200, msgspec.to_builtins(found))


@api.delete(_PATH, policy=None)
async def end_drain(call: Call[Compute]) -> Reply:
    """Let the host have servers again; what has begun to move still does."""
    _require_admin(call)
    await draining.end(call.service, call.path["host"])
    return Reply(204)


def _require_admin(call: Call[Compute]) -> None:
    if not call.who.is_admin:
        raise Forbidden("Hosts are an administrator's business.")
